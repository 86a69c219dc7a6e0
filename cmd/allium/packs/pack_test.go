package packs

import (
	"strings"
	"testing"

	"allium/gateway/api"
)

// TestPackTexts: the texts of a pack cannot look like lines of ours.
func TestPackTexts(t *testing.T) {
	t.Parallel()
	const evil = "x\nformat  trusted\x1b[2J"
	i := api.PackInfo{Format: "pmtiles", Layers: []string{evil}, Warnings: []string{evil}, PackTexts: api.PackTexts{
		Name: evil, Attribution: evil,
	}}
	for line := range strings.Lines(packInfoText(i)) {
		if strings.HasPrefix(line, "format  trusted") {
			t.Errorf("a forged line in %q", packInfoText(i))
		}
	}
	for _, p := range []api.Pack{
		{Name: "a", Error: evil}, {Name: "a", File: evil}, {Name: "a", Info: &i, Error: evil}} {
		if text := packText(p); strings.Contains(text, "\nformat") {
			t.Errorf("a forged line in %q", text)
		}
	}
}
