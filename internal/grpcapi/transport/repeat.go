package transport

import "github.com/nesoserve/neso/internal/grpcapi/transport/header"

// maxRepeat is the longest header block that is kept to be recognized, in bytes.
const maxRepeat = 1 << 10

// repeats reports whether a block of headers says what the last one said: it has
// the same bytes, and nothing has changed the table of the connection since.
// Clients send the same block with each call once their table is filled.
func (c *intake) repeats(block []byte) bool {
	return len(c.lastBlock) > 0 && string(block) == string(c.lastBlock)
}

// remember keeps a block that has been decoded for repeats, unless it has
// changed the table: then the same bytes mean something else.
func (c *intake) remember(block []byte) {
	c.lastBlock = c.lastBlock[:0]
	if len(block) <= maxRepeat && header.KeepsTable(block) {
		c.lastBlock = append(c.lastBlock, block...)
	}
}
