package flow

// InPieces makes transactions small that are pieces of something larger.
func (f *Flow) InPieces(ops int) { f.mostOps = ops }
