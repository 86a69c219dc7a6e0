package text

import (
	"fmt"
	"time"

	"allium/gateway/api"
)

// Reach says for whom a ticket works, and how to fetch with it.
func Reach(s api.Shared) string {
	return fmt.Sprintf("for %s%s; there: allium get TICKET", s.Reach, Until(s.NotAfter))
}

// HasWhole says that a peer has got all of what is shared. path may be empty.
func HasWhole(peer, path string) string {
	if path != "" {
		path = ", " + path
	}
	return time.Now().Format(time.TimeOnly) + " " + peer + " has it whole" + path
}

// Until returns ", until TIME", and "" for the zero time.
func Until(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return ", until " + end.Local().Format("2006-01-02 15:04:05")
}
