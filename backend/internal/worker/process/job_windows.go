package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/nesoserve/neso/backend/internal/worker/limits"
)

// A job holds a process and all that it starts, which cannot leave it: it has their limits,
// and they end with it. The system closes the server's jobs when the server ends, however
// that comes about, so that no worker outlives it.

// job is one process and what it has started.
type job struct{ file *os.File }

// newJob makes a job whose processes have limits.
func newJob(l limits.Limits) (*job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("job of the worker: %w", err)
	}
	info := jobLimits(l)
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, fmt.Errorf("limits of the worker: %w", err)
	}
	return &job{os.NewFile(uintptr(handle), "job")}, nil
}

// jobLimits says limits in the system's words.
func jobLimits(l limits.Limits) (info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	// Without the second, a process that fails would ask its user what to do about it.
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	if l.Memory > 0 {
		info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
		info.ProcessMemoryLimit = uintptr(l.Memory)
	}
	if l.CPU > 0 {
		info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_TIME
		const second = 10_000_000 // in units of 100 ns
		info.BasicLimitInformation.PerProcessUserTimeLimit = int64(min(l.CPU, math.MaxInt64/second)) * second
	}
	return info
}

// start starts a command in the job. The process runs nothing before it is there. It
// inherits its output and the handles, and nothing else.
func (j *job) start(c *exec.Cmd, inherits ...windows.Handle) error {
	c.SysProcAttr = &syscall.SysProcAttr{
		// A group of its own: Ctrl-C is for the server, which ends workers in order.
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
	for _, h := range inherits {
		if err := windows.SetHandleInformation(h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
			return fmt.Errorf("channels of the worker: %w", err)
		}
		c.SysProcAttr.AdditionalInheritedHandles = append(c.SysProcAttr.AdditionalInheritedHandles, syscall.Handle(h))
	}
	if err := c.Start(); err != nil {
		return err
	}
	err := j.add(c.Process)
	if err == nil {
		err = resume(uint32(c.Process.Pid))
	}
	if err != nil {
		_ = c.Process.Kill()
		_ = c.Wait() // killed: there is nothing to learn
		return fmt.Errorf("start the worker in its job: %w", err)
	}
	return nil
}

// add puts a process into the job.
func (j *job) add(p *os.Process) error {
	var failed error
	err := p.WithHandle(func(process uintptr) {
		failed = j.with(func(job windows.Handle) error { return windows.AssignProcessToJobObject(job, windows.Handle(process)) })
	})
	return errors.Join(err, failed)
}

// end ends all processes of the job; there may be none any more.
func (j *job) end() {
	_ = j.with(func(job windows.Handle) error { return windows.TerminateJobObject(job, killed) })
}

// close lets go of the job, and ends what is in it.
func (j *job) close() { _ = j.file.Close() }

// with calls do with the handle of the job, unless that is closed.
func (j *job) with(do func(windows.Handle) error) error {
	raw, err := j.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(windows.Handle(fd)) })
	return errors.Join(err, failed)
}

// resume has a process begin that was started suspended: it has one thread.
func resume(pid uint32) error {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("look for its thread: %w", err)
	}
	defer windows.CloseHandle(all)
	var entry windows.ThreadEntry32
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Thread32First(all, &entry); err == nil; err = windows.Thread32Next(all, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("its thread: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		return errors.Join(err, windows.CloseHandle(thread))
	}
	return fmt.Errorf("process %d has no thread: %w", pid, err)
}
