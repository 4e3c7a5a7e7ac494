package confstore

import "confcenter/internal/jsonpath"

// Origin says which document a part of a resolved document comes from.
type Origin struct {
	Path string // JSON pointer (RFC 6901)
	Name string // of the document
}

// Origins returns the document of origin of each top-level member of the resolved document, and of
// each member below that is not an object itself, as [jsonpath.Trace] does.
func (n *Node) Origins() (origins []Origin, complete bool) {
	docs, names := make([][]byte, 0, len(n.parts)+1), append(n.partNames[:len(n.partNames):len(n.partNames)], n.name)
	for _, part := range n.parts {
		docs = append(docs, part.text)
	}
	if n.own != nil {
		docs = append(docs, n.own.text)
	}
	list, complete := jsonpath.Trace(docs, n.deep)
	for _, o := range list {
		origins = append(origins, Origin{o.Path, names[o.Doc]})
	}
	return origins, complete
}
