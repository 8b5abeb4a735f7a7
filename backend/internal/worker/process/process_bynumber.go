//go:build unix && !linux

package process

import (
	"errors"
	"os"
	"syscall"

	"github.com/nesoserve/neso/internal/procfs"
)

// canVouch: without process descriptors nobody vouches for what a zygote says.
func canVouch() bool { return false }

func (p *Process) vouched(int, int) error { return errors.New("zygotes need Linux") }

func (p *Process) Release() {}

func newTag() uint64 { return 0 }

func (p *Process) Sweep() {}

// follow takes the child that has just been started.
func (p *Process) follow() {
	p.signal = groupSignal(p)
	p.over = ended(p.pid)
}

// ended returns whether a process is a zombie, or not there at all: it has ended
// then, though its parent has not told of what. Where there is no /proc it is
// taken to live.
func ended(pid int) func() bool {
	return func() bool {
		stat, err := procfs.StatOf(pid)
		if err != nil {
			_, own := os.Stat("/proc/self/stat")
			return own == nil
		}
		return stat.Dead()
	}
}

// quit sends SIGQUIT to the process alone. A core dump would only take time.
func (p *Process) quit() {
	select {
	case <-p.exited: // its number may mean another process by now
	default:
		noCore(p.pid)
		_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	}
}

// groupSignal signals the process and what it has started. The group keeps its
// number as long as one member lives, so the number cannot mean another one.
func groupSignal(p *Process) func(processSignal) {
	return func(s processSignal) {
		sig := syscall.SIGTERM
		if s == signalKill {
			sig = syscall.SIGKILL
		}
		if syscall.Kill(-p.pid, sig) == nil {
			return
		}
		select {
		case <-p.exited: // its number may mean another process by now
		default:
			_ = syscall.Kill(p.pid, sig)
		}
	}
}
