package endpoint

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// silent waits for two comments: what was to come before them has come.
func silent(t *testing.T, stream *mcptest.Stream) {
	t.Helper()
	stream.Comment(patience)
	stream.Comment(patience)
}

func TestTheStreamOfASessionCarriesQuestionsAndChanges(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", asksForms)
	other := f.replica(t).quick()
	s := f.legacySession(t, forms)
	before := asTask(t, s, "tool")
	f.cluster.change(t, before, asks(question("a-1")))
	stream := s.At(other.alice.URL).Listen(t)
	asked := stream.Next(patience) // what was open already
	fits(t, "ElicitRequestFormParams", asked.Params)
	if asked.Method != "elicitation/create" || !strings.Contains(string(asked.Params), before) {
		t.Fatalf("asked is %+v", asked)
	}
	silent(t, stream)
	if response := s.Respond(t, asked.ID, accept(`{"amount":1}`), nil); response.Status != 202 {
		t.Fatal(response.Raw)
	}
	changes := func(id, status string) {
		t.Helper()
		told := stream.Next(patience)
		fits(t, "TaskStatusNotificationParams", told.Params)
		if task := taskOf(t, told.Params); told.Method != "notifications/tasks/status" || task.TaskID != id || task.Status != status {
			t.Errorf("told is %s %s\nwant %s of %s", told.Method, told.Params, status, id)
		}
	}
	changes(before, "working")
	later := asTask(t, s, "tool")
	f.cluster.change(t, later, asks(question("b-1")))
	asked = stream.Next(patience)
	if asked.Method == "notifications/tasks/status" { // unless the stream has not seen the task before it asked
		asked = stream.Next(patience)
	}
	if asked.Method != "elicitation/create" || !strings.Contains(string(asked.ID), later+"/b-1") {
		t.Errorf("asked is %+v", asked)
	}
	f.cluster.change(t, before, completed(`{"content":[],"isError":true}`))
	changes(before, "failed")
	s.Call(t, "tasks/cancel", map[string]any{"taskId": later})
	changes(later, "cancelled")
	f.cluster.change(t, later, completed(`{"content":[]}`)) // told cancelled, it stays so
	silent(t, stream)
	other.offer("new", nil)
	if told := stream.Next(patience); told.Method != "notifications/tools/list_changed" {
		t.Errorf("told is %+v", told)
	}
}

func TestTheStreamIsAboutTheSessionsOwnTasks(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", nil)
	s := f.legacySession(t, forms)
	stream := s.Listen(t)
	stream.Comment(patience)
	others := []string{f.handle(t, "tool"), f.cluster.mine(time.Now(), "bob"), asTask(t, f.legacySession(t, forms), "tool")}
	waiting := s.Open(t, "tools/call", map[string]any{"name": "tool"}) // its questions are for its own stream
	waiting.Comment(patience)
	for _, id := range others {
		f.cluster.change(t, id, asks(question("a-1")))
		f.cluster.change(t, id, completed(`{}`))
	}
	silent(t, stream)
	f.cluster.change(t, f.cluster.unended(t).Name, asks(question("a-1")))
	if asked := waiting.Next(patience); asked.Method != "elicitation/create" {
		t.Errorf("asked is %+v", asked)
	}
	silent(t, stream)
}

func TestAQuestionIsShownOnOneStream(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", nil)
	s := f.legacySession(t, forms)
	id := asTask(t, s, "tool")
	result := s.Open(t, "tasks/result", map[string]any{"taskId": id})
	result.Comment(patience)
	listening := s.Listen(t)
	listening.Comment(patience)
	asksAt := func(stream *mcptest.Stream, key string) {
		t.Helper()
		for {
			if told := stream.Next(patience); told.Method == "elicitation/create" {
				if !strings.HasSuffix(string(told.ID), "/"+key+`"`) {
					t.Errorf("asked is %s, not %s", told.ID, key)
				}
				return
			}
		}
	}
	f.cluster.change(t, id, asks(question("a-1")))
	// Whichever of the two was first has it, and the other has nothing.
	var first string
	for first == "" {
		if told, comment := result.NextOrComment(patience); !comment {
			first = told.Method
			break
		}
		if told, comment := listening.NextOrComment(patience); !comment && told.Method == "elicitation/create" {
			first = "listening"
		}
	}
	if first == "elicitation/create" {
		if told, comment := listening.NextOrComment(patience); !comment && told.Method == "elicitation/create" {
			t.Error("the question is on both streams")
		}
	} else {
		silent(t, result)
	}
	result.Leave()
	listening.Leave()
	eventually(t, "both are gone", func() bool { return len(f.slots) == 0 && f.listeners.total() == 0 })

	// A new GET stream takes over from an old one, which may have broken without a sign.
	f.cluster.change(t, id, asks(question("b-1")))
	old := s.Listen(t)
	asksAt(old, "b-1")
	fresh := s.Listen(t)
	asksAt(fresh, "b-1")
	f.cluster.change(t, id, completed(`{}`))
	if told := fresh.Next(patience); told.Method != "notifications/tasks/status" {
		t.Errorf("told is %+v", told)
	}
	silent(t, old)
	silent(t, fresh)
}

// Two streams show a question once between them; each case says who has it already and who asks.
func TestWhichStreamShowsAQuestion(t *testing.T) {
	x := &exchange{session: &session{ID: "s"}}
	stranger := &exchange{session: &session{ID: "other"}}
	s := newShown()
	result, listening := newTeller(nil, x, "task"), newTeller(nil, x, "")
	leaveResult, leaveListening := s.enter(result), s.enter(listening)
	if !s.take(result, "task", "a") || s.take(listening, "task", "a") {
		t.Error("what a result stream has is repeated on the GET stream")
	}
	if !s.take(listening, "task", "b") || s.take(result, "task", "b") {
		t.Error("what the GET stream has is repeated on a result stream")
	}
	if !s.take(newTeller(nil, stranger, "task"), "task", "a") {
		t.Error("another session does not see the question")
	}
	if s.first(listening, "task") || !s.first(listening, "another") {
		t.Error("what follows a task is told on both streams")
	}
	leaveResult()
	if s.take(listening, "task", "a") {
		t.Error("a person who reads the question is asked again")
	}
	if !s.take(newTeller(nil, x, "task"), "task", "a") {
		t.Error("a client that comes back does not see the question")
	}
	leaveListening()
	if !s.take(result, "task", "b") {
		t.Error("what the GET stream had is lost with it")
	}
	late := s.questions[shownQuestion{shownTask{"s", "task"}, "a"}]
	late.at = time.Now().Add(-askAgain)
	s.questions[shownQuestion{shownTask{"s", "task"}, "a"}] = late
	again := newTeller(nil, x, "")
	defer s.enter(again)()
	if !s.take(again, "task", "a") {
		t.Error("what was shown long ago and not answered is not shown again")
	}
	s.enter(newTeller(nil, x, "task"))()
	if len(s.followed) != 0 || len(s.listening) != 1 {
		t.Errorf("left over: %v, %v", s.followed, s.listening)
	}
}

func TestStreamsAreBoundedForEachCaller(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxStreamsPerCaller, c.MaxStreams = 2, 3 })
	s := f.legacySession(t, nil)
	first := s.Listen(t)
	s.Listen(t)
	get := func(s *mcptest.Session) *mcptest.Response {
		request, err := s.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		response, err := mcptest.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	failsWith(t, get(s), 429, 429, "you have 2 streams of notifications open")
	bob := f.alice
	bob.Token = "bob"
	bobs := bob.Initialize(t, mcptest.LegacyVersion, nil)
	bobs.Listen(t)
	failsWith(t, get(bobs), 429, 503, "3 streams of notifications are open")
	first.Leave()
	eventually(t, "there is a place again", func() bool { return f.listeners.total() == 2 })
	s.Listen(t)
}

func TestWhatIsNoStream(t *testing.T) {
	f := newFixture(t, nil)
	s := f.legacySession(t, nil)
	for what, tc := range map[string]struct {
		edit   func(*http.Request)
		status int
		words  string
	}{
		"no session":        {mcptest.Header("Mcp-Session-Id", ""), 400, "Mcp-Session-Id is missing"},
		"a forged session":  {mcptest.Header("Mcp-Session-Id", "x"), 404, "initialize again"},
		"another's session": {mcptest.Header("Authorization", "Bearer bob"), 404, "initialize again"},
		"nobody":            {mcptest.Header("Authorization", ""), 401, "required"},
		"no stream":         {mcptest.Header("Accept", "application/json"), 400, "text/event-stream"},
		"another origin":    {mcptest.Header("Origin", "https://evil.example.com"), 403, "cross-origin"},
		"the newer version": {mcptest.Header("Mcp-Protocol-Version", "2026-07-28"), 405, "only POST"},
	} {
		request, err := s.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tc.edit(request)
		response, err := mcptest.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Error == nil || response.Status != tc.status || !strings.Contains(response.Error.Message, tc.words) {
			t.Errorf("%s: HTTP %d with %s", what, response.Status, response.Raw)
		}
	}
}

func TestTheStreamEndsWithTheServerAndWithTheCredentials(t *testing.T) {
	f := newFixture(t, nil)
	stream := f.legacySession(t, nil).Listen(t)
	f.Drain()
	stream.End(patience)

	source := &revocable{}
	f = newFixture(t, func(c *Config) { c.Authenticator = source })
	f.subscriptions.rhythm.review = 5 * time.Millisecond
	stream = f.legacySession(t, nil).Listen(t)
	source.answer.Store(&auth.ErrRefused)
	stream.End(patience)
}

func TestAQuestionIsShownOnOneStreamOfTwoReplicas(t *testing.T) {
	f := newFixture(t, nil).quick()
	f.offer("tool", nil)
	other := New(f.Config)
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	s := f.legacySession(t, forms)
	id := asTask(t, s, "tool")
	elsewhere := *s
	elsewhere.URL = server.URL + "/mcp/team"
	listening := s.Listen(t)
	listening.Comment(patience)
	result := elsewhere.Open(t, "tasks/result", map[string]any{"taskId": id})
	result.Comment(patience)
	f.cluster.change(t, id, asks(question("a-1")))
	eventually(t, "one of them has it", func() bool { return len(showings(f.cluster.only(t))) == 1 })
	f.cluster.change(t, id, completed(`{"content":[]}`))
	asked := 0
	for told := result.Next(patience); ; told = result.Next(patience) {
		if told.Method == "elicitation/create" {
			asked++
		}
		if told.Result != nil {
			break
		}
	}
	for told := listening.Next(patience); ; told = listening.Next(patience) {
		if told.Method == "elicitation/create" {
			asked++
		}
		if told.Method == "notifications/tasks/status" && strings.Contains(string(told.Params), `"completed"`) {
			break
		}
	}
	if asked != 1 {
		t.Errorf("it is asked %d times", asked)
	}
}
