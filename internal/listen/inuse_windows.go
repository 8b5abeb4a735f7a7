package listen

import "golang.org/x/sys/windows"

// inUse is the error of an address that somebody listens on: syscall's own is never returned here.
const inUse = windows.WSAEADDRINUSE
