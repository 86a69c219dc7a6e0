package text

import (
	"fmt"

	"allium/gateway/api"
)

// CopiesResumed says that missing copies are sent again.
func CopiesResumed(r api.Resumed) string {
	if r.Silent == 0 {
		return "no member is silent, so nothing held copies back"
	}
	return fmt.Sprintf("this node makes all copies that are missing, as if %s did not come back",
		Plural(r.Silent, "silent member"))
}

// Evacuation says in a line how far an evacuation is.
func Evacuation(e api.Evacuation) string {
	if !e.Ready && e.Left == 0 {
		return "handing over: the node is looking at its pins"
	}
	s := fmt.Sprintf("handing over: %d of %s", e.Objects-e.Left, Plural(e.Objects, "object"))
	if e.Left > 0 {
		s += fmt.Sprintf(", %s left", size(e.LeftBytes))
	}
	if e.Why != "" {
		s += "; " + e.Why
	}
	return s
}

// Evacuated says that an evacuation has ended.
func Evacuated(e api.Evacuation) string {
	if e.Objects == 0 {
		return "no pin of this node asks for copies, so nothing had to be handed over"
	}
	return fmt.Sprintf("%s handed over: others hold and have proved all copies that are asked for",
		Plural(e.Objects, "object"))
}
