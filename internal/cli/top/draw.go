package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// column is one of the table.
type column struct {
	title string
	left  bool
	text  func(*Row) string
}

func number(f func(*Row) float64, decimals int) func(*Row) string {
	return func(r *Row) string {
		v := f(r)
		switch {
		case math.IsNaN(v):
			return "-"
		case math.IsInf(v, 0):
			return ">" // beyond the histogram's last bound
		}
		return strconv.FormatFloat(v, 'f', decimals, 64)
	}
}

var columns = []column{
	{"MODEL", true, func(r *Row) string { return printable(r.Model) }},
	{"VERSION", false, func(r *Row) string { return printable(r.Version) }},
	{"STATE", true, func(r *Row) string { return printable(r.State) }},
	{"REQ/S", false, number(func(r *Row) float64 { return r.Requests }, 1)},
	{"INFER/S", false, number(func(r *Row) float64 { return r.Inferences }, 1)},
	{"FAIL/S", false, number(func(r *Row) float64 { return r.Failures }, 1)},
	{"BATCH", false, number(func(r *Row) float64 { return r.Batch }, 1)},
	{"LATENCY ms", false, number(func(r *Row) float64 { return r.Latency }, 3)},
	{"P99 ms", false, number(func(r *Row) float64 { return r.P99 }, 3)},
	{"QUEUE ms", false, number(func(r *Row) float64 { return r.Queue }, 3)},
	{"COMPUTE ms", false, number(func(r *Row) float64 { return r.Compute }, 3)},
	{"BUSY", false, number(func(r *Row) float64 { return r.Busy }, 2)},
	{"PENDING", false, number(func(r *Row) float64 { return r.Pending }, 0)},
	{"CPU", false, number(func(r *Row) float64 { return r.CPU }, 2)},
	{"MEMORY MB", false, number(func(r *Row) float64 { return r.Memory / 1e6 }, 0)},
	{"", true, func(r *Row) string { return printable(r.Reason) }},
}

// Draw returns the header and the table, in at most height lines of at most width
// characters; 0 means any number. What does not fit is said in the last line.
func Draw(h Header, rows []Row, width, height int) string {
	ready := 0
	for i := range rows {
		if rows[i].State == "READY" {
			ready++
		}
	}
	lines := []string{fmt.Sprintf("%s  %s  every %v  %d of %d versions ready", printable(h.URL), h.At.Format("15:04:05"),
		h.Interval, ready, len(rows))}
	if h.Machine != "" && (height == 0 || height >= 5) {
		lines = append(lines, printable(h.Machine))
	}
	left := 0
	if fits := height - 2 - len(lines); height > 0 && len(rows) > max(fits, 1) {
		left = len(rows) - max(fits, 1)
		rows = rows[:len(rows)-left]
	}
	lines = append(lines, table(rows)...)
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	var b strings.Builder
	for _, line := range lines {
		line = strings.TrimRight(line, " ")
		if width > 0 && utf8.RuneCountInString(line) > width {
			line = string([]rune(line)[:width])
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func table(rows []Row) []string {
	cells, widths := make([][]string, len(rows)+1), make([]int, len(columns))
	for i := range cells {
		cells[i] = make([]string, len(columns))
		for j, c := range columns {
			if cells[i][j] = c.title; i > 0 {
				cells[i][j] = c.text(&rows[i-1])
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(cells[i][j]))
		}
	}
	lines := make([]string, len(cells))
	for i := range cells {
		var b strings.Builder
		for j, c := range columns {
			if c.left {
				fmt.Fprintf(&b, "%-*s  ", widths[j], cells[i][j])
			} else {
				fmt.Fprintf(&b, "%*s  ", widths[j], cells[i][j])
			}
		}
		lines[i] = b.String()
	}
	return lines
}

// printable is text of the server's without what moves a cursor, turns the direction
// of writing or breaks a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
