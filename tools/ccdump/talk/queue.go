package talk

import "confcenter/protocol"

// queue holds requests in order of arrival. Taking one from the front, where it nearly
// always is, costs the same however many follow.
type queue struct {
	list []waiting
	head int // of those that are still there
}

func (q *queue) len() int { return len(q.list) - q.head }

// all returns the requests, not a copy.
func (q *queue) all() []waiting { return q.list[q.head:] }

func (q *queue) push(w waiting) {
	if len(q.list) == cap(q.list) && q.head > len(q.list)/2 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, w)
}

// find returns the place of the oldest request with that command and sequence, or -1.
func (q *queue) find(cmd protocol.Command, seq uint16) int {
	for i := q.head; i < len(q.list); i++ {
		if q.list[i].seq == seq && q.list[i].cmd == cmd {
			return i - q.head
		}
	}
	return -1
}

// take removes the request at place i.
func (q *queue) take(i int) waiting {
	at := q.head + i
	w := q.list[at]
	copy(q.list[q.head+1:at+1], q.list[q.head:at])
	q.list[q.head] = waiting{}
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return w
}
