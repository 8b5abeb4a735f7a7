package gpu

import (
	"strconv"
	"strings"
)

// visible returns which of the devices CUDA shows to the process, in its order:
// those that the value of CUDA_VISIBLE_DEVICES names by number or by the
// beginning of their UUID, up to the first name that means none. nil, a variable
// that is not set, means all.
func visible(all []Device, value *string) []Device {
	if value == nil {
		return numbered(all)
	}
	var chosen []Device
	for entry := range strings.SplitSeq(*value, ",") {
		at := find(all, strings.TrimSpace(entry))
		if at < 0 || contains(chosen, all[at].UUID) {
			break // CUDA shows none at all for one that is named twice; the first is what was meant
		}
		chosen = append(chosen, all[at])
	}
	return numbered(chosen)
}

func find(all []Device, entry string) int {
	if n, err := strconv.Atoi(entry); err == nil {
		if n < 0 || n >= len(all) {
			return -1
		}
		return n
	}
	if entry == "" {
		return -1
	}
	found := -1
	for i := range all {
		if strings.HasPrefix(all[i].UUID, entry) {
			if found >= 0 {
				return -1 // not enough of it to tell
			}
			found = i
		}
	}
	return found
}

func contains(list []Device, uuid string) bool {
	for i := range list {
		if list[i].UUID == uuid {
			return true
		}
	}
	return false
}

func numbered(list []Device) []Device {
	for i := range list {
		list[i].Number = i
	}
	return list
}
