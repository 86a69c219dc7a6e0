package markdown

import (
	"github.com/yuin/goldmark/ast"
	extension "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// checkBoxes renders the boxes of task lists as characters: a control that does nothing would mislead.
type checkBoxes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (checkBoxes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(extension.KindTaskCheckBox, func(
		w util.BufWriter, _ []byte, node ast.Node, entering bool,
	) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		box := "☐ "
		if node.(*extension.TaskCheckBox).IsChecked {
			box = "☑ "
		}
		_, err := w.WriteString(box)
		return ast.WalkContinue, err
	})
}
