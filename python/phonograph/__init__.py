# SPDX-License-Identifier: MIT
"""phonograph: record GPU work once, replay it with a single launch. phonograph.bindings has the calls of the C libraries."""
