# SPDX-License-Identifier: MIT
"""Functions of Python that a call of the library runs before it returns."""

from .bindings import core
from .errors import check, set_record


def run_body(body, call):
    """Makes call(function of C), which runs body(). What body raises is raised here."""
    raised = []

    @core.ph_capture_fn
    def run(stream, user):
        try:
            body()
        except BaseException as exception:
            raised.append(exception)
            return set_record(exception)
        return core.PH_OK

    status = call(run)
    if raised:
        raise raised[-1]
    check(status)
