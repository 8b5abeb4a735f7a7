package fil

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// checkLightGBM sees that a text file is whole: the library takes a shortened
// one for a smaller forest. The head says how many trees there are and the bytes
// of each, since version 3 a line ends the trees, and another one the parameters
// behind them.
func checkLightGBM(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var c lightGBMCheck
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := r.ReadSlice('\n') // of a long line: its first part
		begin := c.at
		c.at += int64(len(line))
		text := strings.TrimSpace(string(line[:min(len(line), 64)]))
		var sizes []byte
		if strings.HasPrefix(text, "tree_sizes=") {
			sizes = bytes.Clone(line[bytes.IndexByte(line, '=')+1:])
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.ReadSlice('\n')
			c.at += int64(len(line))
			if sizes != nil && len(sizes) < maxTreeSizes {
				sizes = append(sizes, line...)
			}
		}
		c.line(text, begin, sizes)
		if errors.Is(err, io.EOF) {
			return c.end()
		}
		if err != nil {
			return err
		}
	}
}

// maxTreeSizes bounds the list of sizes that is kept: of millions of trees.
const maxTreeSizes = 64 << 20

// lightGBMCheck is what has been seen of a file so far.
type lightGBMCheck struct {
	at          int64   // offset of what comes next
	sizes       []int64 // bytes of the trees by the head; nil: it does not say
	trees       int
	begin       int64 // of the tree that is being read, with inTree
	inTree      bool
	short       error // what was wrong with the first tree that is too short
	ends, ended bool  // whether a line has to end the trees, and whether it came
	parameters  bool  // whether the parameters have begun and not ended
}

// line takes the beginning of a line, its offset, and the list of sizes if it is
// that.
func (c *lightGBMCheck) line(text string, begin int64, sizes []byte) {
	switch {
	case strings.HasPrefix(text, "version=v"):
		c.ends = text >= "version=v3"
	case sizes != nil:
		c.sizes = []int64{}
		for word := range strings.FieldsSeq(string(sizes)) {
			size, _ := strconv.ParseInt(word, 10, 64) // what is no number is no bound
			c.sizes = append(c.sizes, size)
		}
	case strings.HasPrefix(text, "Tree="):
		c.treeEnds(begin)
		c.trees, c.begin, c.inTree = c.trees+1, begin, true
	case text == "end of trees":
		c.treeEnds(begin)
		c.ended = true
	case text == "feature importances:", text == "feature_importances:":
		c.treeEnds(begin)
	case text == "parameters:":
		c.treeEnds(begin)
		c.parameters = true
	case text == "end of parameters":
		c.parameters = false
	}
}

// treeEnds compares the tree that ends at an offset with its size by the head.
// It may have more, with other ends of lines.
func (c *lightGBMCheck) treeEnds(at int64) {
	if n := c.trees - 1; c.inTree && c.short == nil && n < len(c.sizes) && at-c.begin < c.sizes[n] {
		c.short = fmt.Errorf("tree %d, at offset %d, has %d of %d bytes: the file is not whole", n, c.begin, at-c.begin, c.sizes[n])
	}
	c.inTree = false
}

func (c *lightGBMCheck) end() error {
	c.treeEnds(c.at)
	switch {
	case c.sizes != nil && c.trees != len(c.sizes):
		return fmt.Errorf("it has %d of %d trees and ends at offset %d: the file is not whole", c.trees, len(c.sizes), c.at)
	case c.short != nil:
		return c.short
	case c.ends && !c.ended:
		return fmt.Errorf("the line that ends the trees is missing, it ends at offset %d: the file is not whole", c.at)
	case c.parameters:
		return fmt.Errorf("the line that ends the parameters is missing, it ends at offset %d: the file is not whole", c.at)
	}
	return nil
}
