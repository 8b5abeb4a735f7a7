#!/usr/bin/env python3
"""ONNX Runtime and nothing else: opens the library by its C API, makes a session of each model file and waits.

    python -S bare_sessions.py LIBRARY MODEL_FILE...

Prints a line when all sessions are there, and ends when its standard input does. Not even numpy is imported, so that time
and memory are the library's.
"""

import ctypes
import sys

# Places in the table of functions, which never change.
GET_ERROR_MESSAGE, CREATE_ENV, CREATE_SESSION, CREATE_SESSION_OPTIONS = 2, 3, 7, 10
API_VERSION = 16


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(library.OrtGetApiBase()[0])
    table = ctypes.cast(get_api(API_VERSION), ctypes.POINTER(ctypes.c_void_p))

    def call(place, *arguments):
        status = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * len(arguments))(table[place])(*arguments)
        if status:
            message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(table[GET_ERROR_MESSAGE])(status)
            sys.exit(message.decode())

    environment, options, session = (ctypes.c_void_p() for _ in range(3))
    call(CREATE_ENV, 2, b"bare", ctypes.byref(environment))  # 2: warnings
    call(CREATE_SESSION_OPTIONS, ctypes.byref(options))
    for path in sys.argv[2:]:
        call(CREATE_SESSION, environment, path.encode(), options, ctypes.byref(session))
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
