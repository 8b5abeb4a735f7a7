package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend/all"
	"github.com/nesoserve/neso/internal/setting"
)

const wantedDescriptors = 4096 // for some thousand connections beside models and logs

// examineLimits looks at memory, descriptors, sealed memory files, and Landlock.
func examineLimits() []finding {
	var list []finding
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		list = append(list, finding{
			what: "limits", ok: limit.Max >= wantedDescriptors, text: fmt.Sprintf("%d file descriptors", limit.Max),
			advice: "Every connection takes one: raise the limit (ulimit -Hn, LimitNOFILE= of a service).",
		})
	}
	fd, err := unix.MemfdCreate("neso-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		unix.Close(fd)
	}
	f := finding{
		what: "limits", ok: err == nil, text: "shared memory with workers is sealed",
		advice: "Tensors of more than 8 KiB go to Python models and other workers in such files. Let memfd_create and fcntl through the " +
			"sandbox (seccomp).",
	}
	if err != nil {
		f.text = fmt.Sprintf("memory files cannot be made or sealed: %v", err)
	}
	o := all.Options{OptionPrefix: setting.Options}
	text, kept := o.Apart()
	list = append(list, f, finding{
		what: "limits", ok: kept, text: text,
		advice: "Models whose workers run as one user can look into each other's. Linux 6.12 or later keeps them apart, where Landlock is " +
			"among its security modules (lsm=).",
	})
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil && strings.TrimSpace(string(text)) != "max" {
		list = append(list, finding{what: "limits", ok: true, text: "the control group allows " + strings.TrimSpace(string(text)) +
			" bytes of memory"})
	}
	return list
}
