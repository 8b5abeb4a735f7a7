//go:build !unix

package worker

import "os"

func receiveFile(*os.File) (*os.File, error) { return nil, errPlatform }

// InheritedChannels fails on this platform.
func InheritedChannels() (control, descriptors *os.File, err error) { return nil, nil, errPlatform }
