package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestPagesOfTheStart(t *testing.T) {
	before := residentFilePages(t)
	if err := letStartGo(); err != nil {
		t.Fatal(err)
	}
	if after := residentFilePages(t); after >= before {
		t.Errorf("%d KiB of files are resident, before %d", after, before)
	}
}

func residentFilePages(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssFile:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Skipf("this system does not say how much of files is resident: %v", err)
	}
	return kib
}
