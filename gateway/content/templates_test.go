package content

import (
	"io"
	"testing"

	"allium/gateway/exchange"
)

// TestPagesAfterAProblem: the first page of a node may be that of an error, after which its templates cannot be cloned.
func TestPagesAfterAProblem(t *testing.T) {
	if err := exchange.PageTemplates().ExecuteTemplate(io.Discard, "upload", exchange.Frame{}); err != nil {
		t.Fatal(err)
	}
	if err := pageTemplates().ExecuteTemplate(io.Discard, "foot", &htmlListing{}); err != nil {
		t.Fatal(err)
	}
}
