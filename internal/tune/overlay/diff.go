package overlay

import (
	"fmt"
	"slices"
	"strings"
)

// around is how many lines that stay are shown beside those that change.
const around = 3

// mostCompared bounds the table of a comparison; larger files are shown as replaced.
const mostCompared = 16 << 20

// line is one of a comparison: ' ' stays, '-' goes, '+' comes.
type line struct {
	mark byte
	text string
}

// Diff returns a patch, in the unified form, that makes the text now of the text was;
// "" if they are the same. A file that is not there is nil.
func Diff(name string, was, now []byte) string {
	if string(was) == string(now) {
		return ""
	}
	old := "a/" + name
	if was == nil {
		old = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", old, name)
	lines := compare(split(was), split(now))
	for at := 0; at < len(lines); {
		first := at
		for first < len(lines) && lines[first].mark == ' ' {
			first++
		}
		if first == len(lines) {
			break
		}
		last := first // the last line that changes
		for i := first; i < len(lines) && i <= last+2*around+1; i++ {
			if lines[i].mark != ' ' {
				last = i
			}
		}
		begin, end := max(at, first-around), min(len(lines), last+around+1)
		hunk(&b, lines, begin, end)
		at = end
	}
	return b.String()
}

// split keeps the ends of lines.
func split(text []byte) []string {
	var all []string
	for l := range strings.Lines(string(text)) {
		all = append(all, l)
	}
	return all
}

func hunk(b *strings.Builder, lines []line, begin, end int) {
	oldAt, newAt := 1, 1
	for _, l := range lines[:begin] {
		if l.mark != '+' {
			oldAt++
		}
		if l.mark != '-' {
			newAt++
		}
	}
	oldCount, newCount := 0, 0
	for _, l := range lines[begin:end] {
		if l.mark != '+' {
			oldCount++
		}
		if l.mark != '-' {
			newCount++
		}
	}
	if oldCount == 0 {
		oldAt--
	}
	if newCount == 0 {
		newAt--
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", oldAt, oldCount, newAt, newCount)
	for _, l := range lines[begin:end] {
		b.WriteByte(l.mark)
		b.WriteString(l.text)
		if !strings.HasSuffix(l.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// compare finds the longest common sequence of lines.
func compare(a, b []string) []line {
	var out []line
	if len(a)*len(b) > mostCompared {
		for _, s := range a {
			out = append(out, line{'-', s})
		}
		for _, s := range b {
			out = append(out, line{'+', s})
		}
		return out
	}
	common := make([][]int32, len(a)+1) // of a[i:] and b[k:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for k, y := range slices.Backward(b) {
			if x == y {
				common[i][k] = common[i+1][k+1] + 1
			} else {
				common[i][k] = max(common[i+1][k], common[i][k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			out = append(out, line{' ', a[i]})
			i, k = i+1, k+1
		case i < len(a) && (k == len(b) || common[i+1][k] >= common[i][k+1]):
			out = append(out, line{'-', a[i]})
			i++
		default:
			out = append(out, line{'+', b[k]})
			k++
		}
	}
	return out
}
