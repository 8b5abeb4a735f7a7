package isolate

import "golang.org/x/sys/windows"

// abort ends this process as a library does that aborts; aborted is what is told of that.
func abort() { _ = windows.TerminateProcess(windows.CurrentProcess(), 0xC0000409) }

const aborted = "a stack buffer overrun, or an abort (0xc0000409)"
