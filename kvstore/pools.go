package kvstore

import "confcenter/internal/memory"

// account is what one purpose has told a pool that it uses. It tells it seldom, so that
// nothing is added to the cost of an operation. One goroutine uses it at a time.
type account struct {
	pool *memory.Pool // set at open
	told int64
	most int64 // what it may use beside the pool's other users, when it was told last
}

func (a *account) tell(now int64) {
	a.pool.Add(now - a.told)
	a.told = now
	a.most = a.pool.Limit() - (a.pool.Held() - now)
}
