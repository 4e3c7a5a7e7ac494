package confcenter_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

func TestPackagesHaveComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			documented[s.dir] = documented[s.dir] || s.ast.Doc != nil
		}
	}
	var wrong []string
	for dir, ok := range documented {
		if !ok {
			wrong = append(wrong, dir+": the package has no comment")
		}
	}
	complain(t, wrong)
}

func TestExportedNamesHaveComments(t *testing.T) {
	var wrong []string
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, declaration := range s.ast.Decls {
			for _, name := range undocumented(declaration) {
				wrong = append(wrong, fmt.Sprintf("%s:%d: %s has no comment", s.path, s.line(name.Pos()), name.Name))
			}
		}
	}
	complain(t, wrong)
}

// undocumented lists the exported names that declaration introduces without a
// comment. A comment on a group covers its constants and variables, a comment
// behind a line covers that line.
func undocumented(declaration ast.Decl) []*ast.Ident {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !wellKnown(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(s.Names), func(name *ast.Ident) bool { return !name.IsExported() })
	}
	return nil
}

// wellKnown methods mean the same on every type.
func wellKnown(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Len", "Less", "Swap"}, d.Name.Name)
}

func exportedReceiver(d *ast.FuncDecl) bool { return d.Recv == nil || ast.IsExported(receiverName(d)) }

// A comment that says whoever means the client, the caller, the operator: it can say which.
func TestCommentsSayWhoIsMeant(t *testing.T) {
	vague := regexp.MustCompile(`(?:^|[^.\w])([Ww]hoever|[Ww]homever|[Ss]omebody|[Nn]obody|[Aa]nybody|[Ee]verybody)\b`)
	var complaints []string
	for _, s := range sources(t) {
		for _, group := range s.ast.Comments {
			if word := vague.FindString(group.Text()); word != "" && s.path != "comments_test.go" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %q", s.path, s.line(group.Pos()), word))
			}
		}
	}
	complain(t, complaints)
}
