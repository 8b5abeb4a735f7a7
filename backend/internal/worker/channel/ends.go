package channel

import "os"

// Ends are the server's ends of what connects it with a worker.
//
// A Unix socket wakes whoever waits on it also when the other side takes what
// was written, so a pair that carries requests one way and answers the other
// costs both sides a needless wake-up for every frame. So the server's frames
// go over one pair and the worker's over the other.
type Ends struct {
	Peer        Peer     // who is given descriptors, where the system asks for it
	Control     *os.File // the server's frames
	Descriptors *os.File // descriptors to the worker, the worker's frames back
}
