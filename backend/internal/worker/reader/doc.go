// Package reader decides who reads the channel of a worker. One goroutine at a time
// does. It is best the one that waits for the answer: then a request costs no switch
// between goroutines, which is most of what a round trip costs. So whoever waits for
// a batch takes the reader's part when nobody has it, delivers whatever comes, and
// passes the part on when its own batch has ended: to another one that waits, else to
// nobody. When nobody has had it for a moment, or there is something else to wait for,
// the background goroutine reads.
//
// An Election is pure: it is told what happens, and says who reads next. Its user
// wakes goroutines and sets timers. testdata shows it at work.
package reader
