//go:build !unix

package channel

import "os"

// receiveFile fails on this platform.
func ReceiveFile(*os.File) (*os.File, error) { return nil, ErrPlatform }

// InheritedChannels fails on this platform.
func Inherited() (control, descriptors *os.File, err error) { return nil, nil, ErrPlatform }
