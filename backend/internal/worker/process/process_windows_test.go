package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
	"github.com/nesoserve/neso/backend/internal/worker/linelog"
	"github.com/nesoserve/neso/internal/nesotest"
)

// role says what this program is when a test has started it as a worker.
const role = "NESO_TEST_WORKER"

func init() {
	if os.Getenv(role) != "" {
		os.Exit(beWorker(os.Getenv(role)))
	}
}

func beWorker(what string) int {
	if what == "sleep" {
		time.Sleep(time.Hour)
	}
	if what == "program" {
		_, err := io.Copy(os.Stdout, os.Stdin)
		fmt.Fprintln(os.Stderr, "read:", err)
		return 4
	}
	control, descriptors, err := channel.Inherited()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	switch what {
	case "leaves": // something behind, which has its output
		c := exec.Command(os.Args[0])
		c.Env, c.Stdout = append(os.Environ(), role+"=sleep"), os.Stdout
		if err := c.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Fprintln(descriptors, c.Process.Pid)
		return 3
	case "closes": // its channels, and goes on
		_, _ = fmt.Fprint(descriptors, "x")
		_, _ = control.Close(), descriptors.Close()
		time.Sleep(time.Hour)
	case "alone":
		fmt.Fprintln(os.Stdout, "variable:", os.Getenv("NESO_WORKER_CHANNELS"))
	}
	_, _ = io.Copy(descriptors, control) // says what it hears, until the server closes
	fmt.Println("last words")
	return 0
}

// startWorker starts this program in a role.
func startWorker(t *testing.T, l *Launcher, what string) (*Process, *nesotest.Log) {
	t.Helper()
	log := &nesotest.Log{}
	lines := linelog.New(slog.New(slog.NewTextHandler(log, nil)))
	p, err := l.Start(t.Context(), Command{Path: os.Args[0], Env: append(os.Environ(), role+"="+what)}, lines)
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

// TestWorker: a worker hears and says something, and ends with its channel.
func TestWorker(t *testing.T) {
	l := &Launcher{}
	defer l.Close()
	p, log := startWorker(t, l, "alone")
	if _, err := p.ch.Control.WriteString("hear"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(p.ch.Descriptors, b); err != nil || string(b) != "hear" {
		t.Errorf("got %q, %v", b, err)
	}
	p.closeChannels()
	if !p.await(time.Minute) {
		t.Error("it goes on")
	}
	<-p.Gone()
	if p.status != (exitStatus{known: true}) {
		t.Errorf("the end: %+v", p.status)
	}
	p.CleanUp()
	if text := log.String(); !strings.Contains(text, "last words") || !strings.Contains(text, `"variable: "`) {
		t.Errorf("it printed %s", text)
	}
}

// TestKilled: a worker that is ended says so, at once, and a second time does nothing.
func TestKilled(t *testing.T) {
	l := &Launcher{}
	defer l.Close()
	p, _ := startWorker(t, l, "closes")
	if _, err := p.ch.Descriptors.Read(make([]byte, 1)); err != nil {
		t.Errorf("it did not begin: %v", err)
	}
	if cause := p.Cause("", io.EOF); !strings.Contains(cause, "closed its channel and went on") {
		t.Errorf("the cause is %q", cause)
	}
	p.Kill()
	p.closeChannels()
	p.CleanUp()
	p.Kill()
}

// TestLeftBehind: what a worker has started ends with it, and its output with that.
func TestLeftBehind(t *testing.T) {
	l := &Launcher{}
	defer l.Close()
	p, _ := startWorker(t, l, "leaves")
	var pid uint32
	if _, err := fmt.Fscan(p.ch.Descriptors, &pid); err != nil {
		t.Fatal(err)
	}
	child, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		t.Logf("it has ended already: %v", err)
	} else {
		defer func() { _ = windows.CloseHandle(child) }()
	}
	if cause := p.Cause("", io.EOF); !strings.Contains(cause, "exited with code 3") {
		t.Errorf("the cause is %q", cause)
	}
	p.closeChannels()
	p.CleanUp()
	if err == nil {
		if state, err := windows.WaitForSingleObject(child, 60_000); state != windows.WAIT_OBJECT_0 {
			t.Errorf("it goes on: %d, %v", state, err)
		}
	}
}

// TestDeadTakesNothing: a worker that has ended is handed nothing, and nobody waits for it.
func TestDeadTakesNothing(t *testing.T) {
	l := &Launcher{}
	defer l.Close()
	p, _ := startWorker(t, l, "")
	p.Kill()
	<-p.Gone()
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := p.ch.Pass(file); err == nil {
		t.Error("a handle was passed to a worker that has ended")
	}
	p.closeChannels()
	if err := p.ch.Pass(file); err == nil {
		t.Error("a handle was passed after the close")
	}
	p.CleanUp()
}

// TestRunOnce: a program goes to its standard input, its status comes back, and its end by ctx
// is told.
func TestRunOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	cmd := Command{Path: os.Args[0], Env: append(os.Environ(), role+"=program")}
	err := RunOnce(t.Context(), cmd, "print", &stdout, &stderr)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 || stdout.String() != "print" || stderr.String() != "read: <nil>\n" {
		t.Errorf("got %v, %q, %q", err, stdout.String(), stderr.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd.Env = append(os.Environ(), role+"=sleep")
	if err := RunOnce(ctx, cmd, "", io.Discard, io.Discard); err == nil {
		t.Error("it ended well without being let to")
	}
}

// TestJobLimits: limits are said in the system's words.
func TestJobLimits(t *testing.T) {
	got := jobLimits(limits.Limits{Memory: 1 << 30, CPU: 7})
	const flags = windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY | windows.JOB_OBJECT_LIMIT_PROCESS_TIME | windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	basic := got.BasicLimitInformation
	if basic.LimitFlags&flags != flags || got.ProcessMemoryLimit != 1<<30 || basic.PerProcessUserTimeLimit != 70_000_000 {
		t.Errorf("got %+v", got)
	}
	if most := jobLimits(limits.Limits{CPU: 1 << 62}); most.BasicLimitInformation.PerProcessUserTimeLimit <= 0 {
		t.Errorf("a long time is %d", most.BasicLimitInformation.PerProcessUserTimeLimit)
	}
	if none := jobLimits(limits.Limits{}); none.ProcessMemoryLimit != 0 || none.BasicLimitInformation.PerProcessUserTimeLimit != 0 {
		t.Errorf("without limits: %+v", none)
	}
}

// TestSecretsInAnyCase: the names of variables have no case.
func TestSecretsInAnyCase(t *testing.T) {
	got := Environment([]string{"Path=C:", "aws_Secret_access_key=s", "Neso_key=k", "x=1"}, nil, nil)
	if text := strings.Join(got, " "); text != "Path=C: x=1" {
		t.Errorf("got %s", text)
	}
	got = Environment([]string{"Path=C:", "Other=o", "mine=m"}, []string{"Mine"}, nil)
	if text := strings.Join(got, " "); text != "Path=C: mine=m" {
		t.Errorf("with a list: %s", text)
	}
}
