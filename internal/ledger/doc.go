// Package ledger counts the bytes that the server holds for its clients, and
// decides who may hold more: one Ledger for the whole server, whatever the
// protocol.
//
// What counts is what is held, never what somebody has declared: the bytes of a
// body or message as they come, what they become when they are inflated or
// decoded, and answers until they have been written. The first group stands on
// the page In, the second on the page Out; each page has the bound of
// --max-queued-bytes.
//
// Three things may hold. A request counts with Take and Give from when it has
// come until its end; it is bounded by the server's own deadlines. A transfer,
// that is a body on its way in or an answer on its way out, depends on a client
// that may be slow or hostile: it is a Hold, which tells how it gets on, and
// which the ledger cuts off, the one that has stood still for longest first, when
// its page is nearly full. A connection that carries several transfers at a time
// has a Share, which keeps the last quarter of a page from it while it has more
// than a quarter already; so have the answers of a key, over all of its
// connections, with a bound of its own where its quota says one. Inputs of a key are
// quotas alone (package auth).
//
// Who waits behind whom: nobody waits, what has no room is refused, so the order
// is who keeps a place. Large transfers give way to large ones, those that stand
// still for longest first. What is small (TakeWhole, Hold.Whole) has its place on
// the page like others or, when that is full, in a reserve beside it, which
// nothing large enters: bombs and large bodies never have a small request refused.
// Small ones stand behind small ones only, and each connection and key has a part
// of the reserve, so that many of one leave room for others.
//
// How long a transfer may take whatever the ledger holds is Until's to say.
//
// Open ledger.go first, then hold.go and reserve.go.
package ledger
