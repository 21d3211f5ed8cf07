"""gdb commands for a stopped process with a kernel of dxgkit in it: source this file.

  dxgkit adapters      nodes and segments of each adapter
  dxgkit packets       what is on hardware and what is queued
  dxgkit allocations   each device's allocations and where they are
  dxgkit waits         which context waits for what, and who could end it

They call a function of the process while all its threads stand still. It takes no lock; what a thread was just changing may look half done.
A core file has no process to call, so it is refused.
"""
import gdb

WHAT = {"adapters": 1, "packets": 2, "allocations": 3, "waits": 4}


class Dxgkit(gdb.Command):
    __doc__ = __doc__

    def __init__(self):
        super().__init__("dxgkit", gdb.COMMAND_STATUS)

    def complete(self, text, word):
        return [name for name in WHAT if name.startswith(word)]

    def invoke(self, argument, from_tty):
        if argument not in WHAT:
            raise gdb.GdbError("dxgkit " + "|".join(WHAT))
        thread = gdb.selected_thread()
        if thread is None or not thread.is_valid() or not gdb.selected_inferior().was_attached and gdb.selected_inferior().pid == 0:
            raise gdb.GdbError("there is no process that is stopped")
        # The other threads stay where they are.
        before = gdb.parameter("scheduler-locking")
        gdb.execute("set scheduler-locking on", to_string=True)
        try:
            text = gdb.parse_and_eval(f"((const char *(*)(int)) dxgkit_debug_text)({WHAT[argument]})").string()
        except gdb.error as error:
            raise gdb.GdbError(f"no kernel of dxgkit answers: {error}")
        finally:
            gdb.execute(f"set scheduler-locking {before}", to_string=True)
        gdb.write(text)


Dxgkit()
