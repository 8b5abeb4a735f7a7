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
// than a quarter already. Shares of keys are quotas (package auth).
//
// How long a transfer may take whatever the ledger holds is Until's to say.
//
// Open ledger.go first, then hold.go.
package ledger
