package fil

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// checkLightGBM sees that a text file is whole: the library takes a shortened
// one for a smaller forest. The head says how large the trees are, and since
// version 3 a line ends them.
func checkLightGBM(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	trees, want, ended, ends := 0, -1, false, false
	for {
		line, err := r.ReadSlice('\n') // of a long line: its first part
		text := strings.TrimSpace(string(line[:min(len(line), 64)]))
		switch {
		case strings.HasPrefix(text, "version=v"):
			ends = text >= "version=v3"
		case strings.HasPrefix(text, "tree_sizes="):
			want = 1 + strings.Count(strings.TrimSpace(string(line)), " ")
			for errors.Is(err, bufio.ErrBufferFull) {
				line, err = r.ReadSlice('\n')
				want += strings.Count(string(line), " ")
			}
		case strings.HasPrefix(text, "Tree="):
			trees++
		case text == "end of trees":
			ended = true
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	switch {
	case want >= 0 && trees != want:
		return fmt.Errorf("it has %d of %d trees: the file is not whole", trees, want)
	case ends && !ended:
		return errors.New("the line that ends the trees is missing: the file is not whole")
	}
	return nil
}
