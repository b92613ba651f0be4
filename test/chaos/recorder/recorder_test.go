package recorder

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/test/chaos/record"
)

func TestADeedSaidTwiceWasDoneOnce(t *testing.T) {
	log, err := record.Create(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	r := New(log)
	say := func(deed string) (int, string) {
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(deed)))
		return answer.Code, strings.TrimSpace(answer.Body.String())
	}
	const first = `{"Task":"t","Run":"a","Ordinal":1,"What":"start"}`
	for _, c := range []struct {
		deed   string
		status int
		want   string
	}{
		{first, 200, `{"Starts":1}`},
		{first, 200, `{"Starts":1}`},
		{`{"Task":"t","Run":"a","Ordinal":2,"What":"effect"}`, 200, `{"Starts":1}`},
		{`{"Task":"t","Run":"b","Ordinal":1,"What":"start"}`, 200, `{"Starts":2}`},
		{`{"Task":"t"}`, 400, "not a deed"},
		{`{`, 400, "not a deed"},
	} {
		if status, text := say(c.deed); status != c.status || text != c.want {
			t.Errorf("%s: %d %s", c.deed, status, text)
		}
	}
	if len(log.Deeds) != 3 {
		t.Errorf("%d deeds are recorded", len(log.Deeds))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
