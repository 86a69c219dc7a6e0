package exchange

import (
	"errors"
	"fmt"
	"strings"

	"allium/protocols/status"
)

// Sentence returns what a person reads about err: what failed, why, and what to do. It comes
// from the outermost error of the chain that carries an outcome. Errors that wrap it only say
// where it passed, which the log has.
func Sentence(err error) string {
	if err == nil {
		return ""
	}
	message := messageOf(err)
	if strings.HasSuffix(message, ".") || strings.HasSuffix(message, "…") {
		return message
	}
	return message + "."
}

// messageOf returns the message of the outermost error in err's chain that carries an outcome.
func messageOf(err error) string {
	var carries interface {
		error
		Status() status.Outcome
	}
	if errors.As(err, &carries) {
		return carries.Error()
	}
	switch status.Of(err) {
	case status.Timeout:
		return "the request timed out: the node did not finish it within its deadline. Try again"
	case status.Canceled:
		return "the request was canceled: the client closed the connection"
	default:
		return err.Error()
	}
}

// LookupFailed returns err as the sentence "cannot <what>: …", and notes its lookup in w, for the
// log. It returns nil for nil.
func (w *Response) LookupFailed(what string, err error) error {
	if err == nil {
		return nil
	}
	report := status.ReportOf(err)
	w.LookupID, _ = status.ParseLookupID(report.LookupID)
	report.Message = fmt.Sprintf("cannot %s: %s", what, Sentence(err))
	return report.Err(status.Of(err).Code())
}
