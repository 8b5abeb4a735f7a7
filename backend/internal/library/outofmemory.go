package library

import "strings"

// signs are what libraries say when memory ran out.
var signs = []string{"bad_alloc", "Failed to allocate", "failed to allocate", "ould not allocate", "ut of memory", "ot enough memory"}

// MemoryHint returns what to do when an error of a library means that there was
// too little memory for a model, with a blank in front; else "".
func MemoryHint(text string) string {
	for _, sign := range signs {
		if strings.Contains(text, sign) {
			return " (there is not enough memory for the model: use smaller batches or fewer instances, a smaller model, or a larger machine)"
		}
	}
	return ""
}
