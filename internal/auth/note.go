package auth

import (
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/refusals"
)

// Note writes down that a request was refused, unless that was for a quota. The
// error names no key but by its name.
func Note(book *refusals.Book, err *backend.Error, from ...slog.Attr) {
	switch {
	case err.Code == backend.PermissionDenied:
		book.Refused(refusals.KeyLimits, err.Message, from...)
	case err.Code == backend.Unauthenticated && err.Message == textMissing:
		book.Refused(refusals.NoKey, err.Message, from...)
	case err.Code == backend.Unauthenticated:
		book.Refused(refusals.UnknownKey, err.Message, from...)
	}
}
