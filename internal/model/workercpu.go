package model

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/internal/procfs"
)

// workerCPU adds up what worker processes use of the processors, also of those that
// have been replaced: of these it has what they had used when it was last asked for.
type workerCPU struct {
	mu   sync.Mutex
	sum  time.Duration
	any  bool
	last map[int]time.Duration // by process, when it was last asked for
}

// update takes what the processes have used that there are now.
func (u *workerCPU) update(now map[int]time.Duration) (sum time.Duration, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for process, used := range now {
		if before := u.last[process]; before <= used {
			used -= before
		} // else another process has the number now
		u.sum += used
	}
	u.last, u.any = now, u.any || len(now) > 0
	return u.sum, u.any
}

// WorkerCPU returns what the version's worker processes have used of the processors
// so far; ok where it has, or had, any and the system says so. Of a process that
// several models share each has the whole.
func (m *Model) WorkerCPU() (used time.Duration, ok bool) {
	now := map[int]time.Duration{}
	for _, st := range m.InstanceStandings() {
		if st.Process <= 0 {
			continue
		}
		if u, err := procfs.UsedBy(st.Process); err == nil {
			now[st.Process] = u.CPU
		}
	}
	return m.worked.update(now)
}
