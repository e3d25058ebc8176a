# Runs handlers in Python. What it is told comes in lines on descriptor 3, and how jobs ended goes out on descriptor 4; docs/handlers.md has the lines.
import asyncio
import base64
import inspect
import json
import os
import sys
import traceback

MAX_RESULT = 65536


def put(fd, data):
    while data:
        data = data[os.write(fd, data):]


def decode(word):
    return b"" if word == b"-" else base64.b64decode(word)


def encode(data):
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    return base64.b64encode(data) if data else b"-"


def explain(err):
    return ("%s: %s" % (type(err).__name__, err))[:4000]


class End:
    """What a handler returns that says how the job ended."""

    def __init__(self, status, value=None, delay=0):
        self.status, self.value, self.delay = status, value, delay


class Job:
    def __init__(self, words):
        names = [w.decode() for w in words[:6]]
        self.id, self.type, self.queue, self.tenant = names[:4]
        self.attempt, self.max_attempts = int(names[4]), int(names[5])
        self.payload = decode(words[6])

    def end(self, status, value=None, delay=0):
        return End(status, value, delay)


class Handler:
    def __init__(self, scripts):
        body, before, before_each, after_each = [decode(s).decode() for s in scripts]
        self.names = {"__name__": "handler"}
        self.run_script(before and compile(before, "before.py", "exec"))
        exec(compile(body, "handler.py", "exec"), self.names)
        self.handle = self.names.get("handle")
        if not callable(self.handle):
            raise TypeError("the handler has no function handle: write def handle(payload, job): ...")
        self.before_each = before_each and compile(before_each, "before-each.py", "exec")
        self.after_each = after_each and compile(after_each, "after-each.py", "exec")

    def run_script(self, code):
        if code:
            exec(code, self.names)


def is_status(v):
    return isinstance(v, int) and not isinstance(v, bool) and 100 <= v <= 599


def result_of(value):
    if value is None:
        return b""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogateescape")


def run_job(handler, words):
    try:
        job = Job(words)
        end = handler.handle(job.payload.decode("utf-8", "surrogateescape"), job)
        if inspect.isawaitable(end):
            end = asyncio.run(settle(end))
        if not isinstance(end, End):
            end = End(end) if is_status(end) else End(200, end)
        if not is_status(end.status):
            raise ValueError("status %r is none from 100 to 599" % (end.status,))
        delay = max(0, round(end.delay * 1000))
        if end.status // 100 != 2:
            said = "" if end.value is None else str(end.value)[:4000]
            return b"%d %d - %s" % (end.status, delay, encode(said))
        result = result_of(end.value)
        if len(result) > MAX_RESULT:
            raise ValueError("the result has more than %d bytes: keep it elsewhere and return where" % MAX_RESULT)
        return b"%d %d %s -" % (end.status, delay, encode(result))
    except BaseException as err:
        tell(err)
        return b"500 0 - " + encode(explain(err))


async def settle(it):
    return await it


def tell(err):
    try:
        traceback.print_exception(type(err), err, err.__traceback__)
    except Exception:
        pass  # the handler has closed it


def attempt(f, *args):
    """Calls f and says how that went, as a status and a text."""
    try:
        f(*args)
        return b"200 -"
    except BaseException as err:
        tell(err)
        return b"500 " + encode(explain(err))


def put_mark(mark):
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
            put(fd, mark)
        except Exception:
            pass  # the handler has closed it


def main():
    for fd in (3, 4):
        os.set_inheritable(fd, False)
    told = os.fdopen(3, "rb", 1 << 16)
    mark, handlers = b"", {}
    for line in told:
        words = line.split()
        if words[0] == b"hello":
            mark = b"\x1e" + words[2] + b"\x1e"
            put(4, b"hello 1\n")
        elif words[0] == b"handler":
            how = attempt(lambda: handlers.__setitem__(words[1], Handler(words[2:])))
            put(4, b"loaded %s %s\n" % (words[1], how))
        elif words[0] == b"batch":
            handler, n = handlers[words[1]], int(words[2])
            how = attempt(handler.run_script, handler.before_each)
            put(4, b"begin %s\n" % how)
            for i in range(n):
                job = told.readline().split()
                if how[:1] != b"2":
                    continue
                end = run_job(handler, job[2:])
                if i < n - 1:
                    put_mark(mark)
                put(4, b"done %s %s\n" % (job[1], end))
            how = attempt(handler.run_script, handler.after_each)
            put_mark(mark)
            put(4, b"end %s\n" % how)


main()
