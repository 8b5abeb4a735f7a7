package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/internal/processors"
	"github.com/nesoserve/neso/internal/procfs"
)

// startConfined starts c so that neither it nor anything it starts can gain
// rights: no set-user-ID program raises them. The kernel keeps that promise per
// thread, and a child has it from the thread that forks it, so that thread is
// used once.
func startConfined(c *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = c.Start()
		}
		done <- err
	}()
	return <-done
}

// noCore has a process leave no core dump. One byte means none also where a
// program takes them.
func noCore(pid int) {
	var now unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &now) == nil {
		now.Cur = min(1, now.Max)
		_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &now, nil)
	}
}

// confinement is what a program that calls Confine does, in the descriptor
// confinementFD.
type confinement struct {
	Path   string
	Args   []string // with the name of the program
	Env    []string
	Dir    string // "" for the server's
	Mark   uint64 // 0 for none
	Apart  bool
	Limits limits.Limits
	User   *User // nil for the server's

	HostPolicy *backend.HostPolicy // nil for anywhere
}

// confinementFD comes behind the channels.
const confinementFD = 5

// prepare returns what is to be started, with room for the channels among its
// ExtraFiles. begun is called when it has been.
func (c *Command) prepare(tag uint64) (cmd *exec.Cmd, begun func(), err error) {
	cmd = exec.Command(c.Path, c.Args...) //nolint:noctx // a context would kill it behind the supervisor's back
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.ExtraFiles = make([]*os.File, 2)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !c.throughConfine() {
		if c.User != nil {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID, Groups: c.User.Groups}
		}
		return cmd, func() {}, nil
	}
	if cmd.Err != nil {
		return nil, nil, cmd.Err
	}
	body, err := json.Marshal(confinement{
		Path: cmd.Path, Args: cmd.Args, Env: c.Env, Dir: c.Dir,
		Mark: tag, Apart: c.apart(), Limits: c.Limits, User: c.User, HostPolicy: c.HostPolicy,
	})
	if err != nil {
		return nil, nil, err
	}
	file, err := memoryFile("neso-confinement", body)
	if err != nil {
		return nil, nil, err
	}
	through := exec.Command(c.Confine[0], c.Confine[1:]...) //nolint:noctx // as above
	// It begins with the server's rights: what is made for the worker, such as
	// LD_LIBRARY_PATH with libraries of a model, comes later.
	through.Env = []string{}
	through.SysProcAttr, through.ExtraFiles = cmd.SysProcAttr, append(cmd.ExtraFiles, file)
	return through, func() { _ = file.Close() }, nil
}

func (c *Command) throughConfine() bool {
	return len(c.Confine) > 0 && (c.User != nil || c.Limits != limits.Limits{} || c.HostPolicy != nil)
}

// confined completes the confinement of a process that has just been started.
func (c *Command) confined(p *Process) error {
	if c.throughConfine() {
		return nil // it does so itself
	}
	p.mark()
	return applyLimits(c.Limits, p.pid)
}

// memoryFile returns a file that is nowhere.
func memoryFile(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.Write(data); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// maxConfinement bounds what Confine reads: an environment and arguments are
// smaller.
const maxConfinement = 16 << 20

// Confine makes this process, which the server has started with its own rights, a
// worker: it takes limits, mark and user upon itself, of which the program that it
// becomes then can undo nothing. It returns only what went wrong.
func Confine() error {
	runtime.LockOSThread() // of the rights that are given up here some are a thread's own
	file := os.NewFile(confinementFD, "confinement")
	unix.CloseOnExec(confinementFD)
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxConfinement))
	var c confinement
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c.Path == "" {
		return errors.New("this is started by the server")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if h := c.HostPolicy; h != nil {
		if err := processors.NewAffinity(h.Processors, h.Node).Bind(); err != nil {
			return err
		}
	}
	if c.Mark != 0 {
		if err := procfs.Mark(0, c.Mark); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
	}
	if c.Apart {
		if err := keepApart(); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if c.User != nil {
		if err := c.User.become(); err != nil {
			return fmt.Errorf("user %s: %w", c.User.Name, err)
		}
	}
	if c.Dir != "" {
		if err := os.Chdir(c.Dir); err != nil {
			return err
		}
	}
	// Last, since they may be less than what this program has.
	if err := applyLimits(c.Limits, 0); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	return fmt.Errorf("%s: %w", c.Path, syscall.Exec(c.Path, c.Args, c.Env))
}

// become gives up this process's user for good.
func (u *User) become() error {
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	gid, uid := int(u.GID), int(u.UID)
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, uid)
}

// applyLimits limits a process, 0 this one: a child that has not been waited for, and has
// got nothing to do yet.
func applyLimits(l limits.Limits, pid int) error {
	for _, r := range []struct {
		resource int
		value    uint64
	}{{unix.RLIMIT_CPU, l.CPU}, {unix.RLIMIT_NOFILE, l.OpenFiles}, {unix.RLIMIT_DATA, l.Memory}} {
		if r.value == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Prlimit(pid, r.resource, nil, &now); err != nil {
			return err
		}
		limit := unix.Rlimit{Cur: min(r.value, now.Max), Max: min(r.value, now.Max)}
		var err error
		if pid == 0 {
			err = unix.Setrlimit(r.resource, &limit) // which Go does not take back at the exec
		} else {
			err = unix.Prlimit(pid, r.resource, &limit, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
