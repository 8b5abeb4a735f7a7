// Package terminal lays out text for terminals: paragraphs and tables.
package terminal

import (
	"fmt"
	"strings"
)

// Table draws rows as Triton's start-up tables; the first is the heading.
func Table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var rule strings.Builder
	rule.WriteString("+")
	for _, w := range widths {
		rule.WriteString(strings.Repeat("-", w+2) + "+")
	}
	var b strings.Builder
	for i, row := range rows {
		if i < 2 {
			b.WriteString(rule.String() + "\n")
		}
		for j, cell := range row {
			fmt.Fprintf(&b, "| %-*s ", widths[j], strings.ReplaceAll(cell, "\n", " "))
		}
		b.WriteString("|\n")
	}
	b.WriteString(rule.String() + "\n")
	return b.String()
}
