//go:build unix && !linux

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// canVouch: without process descriptors nobody vouches for what a zygote says.
func canVouch() bool { return false }

func (p *process) vouched(int, int) error { return errors.New("zygotes need Linux") }

func (p *process) release() {}

func newTag() uint64 { return 0 }

func marked() bool { return false }

func markProgram(uint64) string { return "" }

func (p *process) mark() {}

func (p *process) sweep() {}

// follow takes the child that has just been started.
func (p *process) follow() {
	p.signal = groupSignal(p)
	p.over = ended(p.pid)
}

// ended returns whether a process is a zombie, or not there at all: it has ended
// then, though its parent has not told of what. Where there is no /proc it is
// taken to live.
func ended(pid int) func() bool {
	return func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			_, own := os.Stat("/proc/self/stat")
			return own == nil
		}
		// The state stands behind the name, which is in parentheses and may hold some.
		i := bytes.LastIndexByte(stat, ')')
		return i >= 0 && i+2 < len(stat) && (stat[i+2] == 'Z' || stat[i+2] == 'X')
	}
}

// quit sends SIGQUIT to the process alone. A core dump would only take time.
func (p *process) quit() {
	select {
	case <-p.exited: // its number may mean another process by now
	default:
		noCore(p.pid)
		_ = syscall.Kill(p.pid, syscall.SIGQUIT)
	}
}

// groupSignal signals the process and what it has started. The group keeps its
// number as long as one member lives, so the number cannot mean another one.
func groupSignal(p *process) func(processSignal) {
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
