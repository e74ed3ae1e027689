# SPDX-License-Identifier: MIT
"""Functions of Python that a call of the library runs before it returns."""

from .bindings import core
from .errors import check, set_record


def body_of(body):
    """(a function of C that runs body(), finish): finish(status) raises what the call failed with.

    That is body's own exception, where the call has returned its status. A call may also go on after a failure of the body,
    and succeed.
    """
    raised = []

    @core.ph_capture_fn
    def run(stream, user):
        try:
            body()
        except BaseException as exception:
            raised.append(exception)
            return set_record(exception)
        return core.PH_OK

    def finish(status):
        if status and raised and status == int(getattr(raised[-1], "status", core.PH_ERROR_CALLER)):
            raise raised[-1]
        check(status)

    return run, finish
