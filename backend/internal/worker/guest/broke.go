package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// InProcess begins what standard error is told of a backend library in the program's process.
const InProcess = "neso: backend library in this process:"

// broke ends the worker after an error of its channel, which the reader sees too, or of a
// server that breaks the protocol.
func (g *Guest) broke(err error) {
	if unlessGone(err) != nil {
		g.complain(err)
	}
	g.fail()
}

// unlessGone is an error of the channel, but nil where it says that the server is gone,
// which is no fault.
func unlessGone(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed, syscall.EPIPE} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}

// complain writes down what went wrong, and in which process.
func (g *Guest) complain(err error) {
	who := "neso isolate:"
	switch {
	case g.near != nil:
		who = InProcess
	case g.asks:
		who = "neso-host:"
	}
	fmt.Fprintln(os.Stderr, who, err)
}
