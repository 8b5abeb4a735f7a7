package header

import "testing"

func TestKeepsTable(t *testing.T) {
	for block, want := range map[string]bool{
		"":                                 true,
		"\x82\x84":                         true,
		"\xff\x80\x01":                     true,
		"\xff":                             false, // cut off
		"\x40\x01a\x01b":                   false, // kept in the table
		"\x82\x41\x01b":                    false,
		"\x20":                             false, // the table's size
		"\x00\x01a\x01b":                   true,
		"\x10\x01a\x01b":                   true,
		"\x0f\x0d\x0254":                   true,
		"\x00\x01a\x05b":                   false,
		"\x00\x01a":                        false,
		"\x0f\xff\xff\xff\xff\xff\xff\x7f": false,
	} {
		if got := KeepsTable([]byte(block)); got != want {
			t.Errorf("%x: %v", block, got)
		}
	}
}
