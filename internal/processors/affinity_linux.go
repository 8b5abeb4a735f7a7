package processors

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maskWords = 8192 / 64 // as many processors as Linux knows of, and more nodes
	bindNodes = 2         // MPOL_BIND
)

type mask [maskWords]uint64

// Affinity is a set of processors and a NUMA node, of which either may be missing.
type Affinity struct {
	processors *mask
	node       *mask
}

// NewAffinity returns the affinity to these processors, all of them where there are
// none, and to the memory of a node, any where it is nil. Nothing is nil.
func NewAffinity(processors []int, node *int) *Affinity {
	p := &Affinity{}
	if len(processors) > 0 {
		p.processors = &mask{}
		for _, i := range processors {
			p.processors.set(i)
		}
	}
	if node != nil {
		p.node = &mask{}
		p.node.set(*node)
	}
	if *p == (Affinity{}) {
		return nil
	}
	return p
}

// set leaves out what no machine has: a mask of nothing is refused by the system.
func (m *mask) set(i int) {
	if i >= 0 && i < maskWords*64 {
		m[i/64] |= 1 << (i % 64)
	}
}

// Bind has the calling thread, and all that it starts from now on, run there. The
// caller has locked its goroutine to the thread.
func (a *Affinity) Bind() error {
	if a == nil {
		return nil
	}
	if a.node != nil {
		if errno := setPolicy(bindNodes, a.node); errno != 0 {
			return fmt.Errorf("Unable to set NUMA memory policy: %s", text(errno)) //nolint:staticcheck // Triton's text
		}
	}
	if a.processors != nil {
		if errno := setAffinity(a.processors); errno != 0 {
			return fmt.Errorf("Unable to set NUMA thread affinity: %s", text(errno)) //nolint:staticcheck // Triton's text
		}
	}
	return nil
}

// Run calls f on a thread that runs there, and threads that f starts stay there.
// The thread itself is then what it was.
func (a *Affinity) Run(f func() error) error {
	if a == nil {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var processors, nodes mask
	var mode int32
	if a.processors != nil {
		if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(processors),
			uintptr(unsafe.Pointer(&processors))); errno != 0 {
			return fmt.Errorf("sched_getaffinity: %w", errno)
		}
		defer func() {
			if setAffinity(&processors) != 0 { // those that there were may be gone from the machine
				for i := range processors {
					processors[i] = ^uint64(0)
				}
				_ = setAffinity(&processors)
			}
		}()
	}
	if a.node != nil {
		if _, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&nodes)), maskWords*64,
			0, 0, 0); errno != 0 {
			return fmt.Errorf("get_mempolicy: %w", errno)
		}
		defer func() {
			if setPolicy(uintptr(mode), &nodes) != 0 {
				_ = setPolicy(0, &mask{}) // MPOL_DEFAULT
			}
		}()
	}
	if err := a.Bind(); err != nil {
		return err
	}
	return f()
}

func setAffinity(m *mask) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(*m), uintptr(unsafe.Pointer(m)))
	return errno
}

func setPolicy(mode uintptr, nodes *mask) unix.Errno {
	// The kernel takes one bit less than it is told.
	_, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, mode, uintptr(unsafe.Pointer(nodes)), maskWords*64+1)
	return errno
}

// text is the error in the C library's words, as Triton has it.
func text(errno unix.Errno) string {
	if errno == unix.EINVAL {
		return "Invalid argument"
	}
	return errno.Error()
}
