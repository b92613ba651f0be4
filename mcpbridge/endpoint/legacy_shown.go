package endpoint

import (
	"sync"
	"time"
)

// askAgain is how long a question counts as shown that was shown on another stream. A client that reads only the
// other kind of stream, or that left before the question came through, sees it then.
const askAgain = time.Minute

// shown is what this replica has on its streams to older clients. A message goes to one stream of a session only
// (2025-11-25, Transports, Multiple Connections). What other replicas have, claim asks the task.
type shown struct {
	mu        sync.Mutex
	questions map[shownQuestion]shownOn
	followed  map[shownTask]int
	// listening are the GET streams of each session, the newest last: that is the one which is written to, for the others
	// may have broken without a sign.
	listening map[string][]*teller
}

type shownTask struct{ session, task string }

type shownQuestion struct {
	shownTask
	key string
}

type shownOn struct {
	teller *teller
	at     time.Time
}

func newShown() *shown {
	return &shown{questions: map[shownQuestion]shownOn{}, followed: map[shownTask]int{}, listening: map[string][]*teller{}}
}

// enter makes a stream known, and returns what to call when it ends.
func (s *shown) enter(t *teller) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := t.x.session.ID
	if !t.listens() {
		key := shownTask{session, t.follows}
		s.followed[key]++
		return func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.followed[key]--; s.followed[key] == 0 {
				delete(s.followed, key)
			}
			s.forget(func(q shownQuestion, on shownOn) bool { return time.Since(on.at) >= askAgain })
		}
	}
	s.listening[session] = append(s.listening[session], t)
	s.forget(func(q shownQuestion, on shownOn) bool { return q.session == session && on.teller.listens() })
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		open := s.listening[session]
		for i := range open {
			if open[i] == t {
				s.listening[session] = append(open[:i:i], open[i+1:]...)
				break
			}
		}
		if len(s.listening[session]) == 0 {
			delete(s.listening, session)
		}
		s.forget(func(q shownQuestion, on shownOn) bool { return on.teller == t })
	}
}

func (s *shown) forget(which func(shownQuestion, shownOn) bool) {
	for question, on := range s.questions {
		if which(question, on) {
			delete(s.questions, question)
		}
	}
}

// take says whether a question is to be shown on this stream, and counts it as shown there if so. What the GET stream
// has is not repeated on others for a while; what others have is not repeated on it, even if they have ended.
func (s *shown) take(t *teller, task, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	question := shownQuestion{shownTask{t.x.session.ID, task}, key}
	on, known := s.questions[question]
	lately := known && time.Since(on.at) < askAgain
	switch {
	case t.listens() && (!s.isNewest(t) || lately || known && on.teller.listens()):
		return false
	case !t.listens() && lately && on.teller.listens():
		return false
	}
	s.questions[question] = shownOn{t, time.Now()}
	return true
}

// first says whether what is not a question is for this GET stream: it is the newest, and no stream follows the task.
func (s *shown) first(t *teller, task string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isNewest(t) && s.followed[shownTask{t.x.session.ID, task}] == 0
}

// newest says whether this GET stream is the one of its session that is written to.
func (s *shown) newest(t *teller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isNewest(t)
}

func (s *shown) isNewest(t *teller) bool {
	open := s.listening[t.x.session.ID]
	return len(open) > 0 && open[len(open)-1] == t
}
