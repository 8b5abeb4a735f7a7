//go:build !unix

package scratch

import "os"

// lock always succeeds: without it nothing is swept.
func lock(*os.File) bool { return true }

// removesOpen says that open files can be removed.
const removesOpen = false

func private(os.FileInfo) bool { return false }
