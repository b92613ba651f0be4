package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const robotsTxt = "User-agent: *\nDisallow: /private/\n"

// Handler serves the site. /healthz and /truth.json are linked from nowhere.
func (p Plan) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { p.servePage(w, 0) })
	numbered := func(pattern string, has func(i int) bool, serve func(w http.ResponseWriter, r *http.Request, i int)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			i, err := strconv.Atoi(r.PathValue("i"))
			if err != nil || i < 0 || !has(i) {
				http.NotFound(w, r)
				return
			}
			serve(w, r, i)
		})
	}
	page := func(has func(int) bool) func(int) bool {
		return func(i int) bool { return i < p.Pages && has(i) }
	}
	broken := func(k kind) func(int) bool {
		return func(j int) bool { return j < p.Broken && brokenKind(j) == k }
	}

	numbered("/p/{i}", page(func(i int) bool { return i > 0 }), func(w http.ResponseWriter, _ *http.Request, i int) {
		p.servePage(w, i)
	})
	numbered("/r/{i}", page(func(i int) bool { _, ok := p.detour(i); return ok }), func(w http.ResponseWriter, r *http.Request, i int) {
		to, _ := p.detour(i)
		http.Redirect(w, r, pagePath(to), http.StatusFound)
	})
	numbered("/private/{i}", page(hasPrivate), func(w http.ResponseWriter, _ *http.Request, _ int) {
		fmt.Fprintln(w, "robots.txt keeps crawlers from here.")
	})
	numbered("/out/{i}", page(hasWayOut), func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, external+"/out", http.StatusFound)
	})
	numbered("/files/{i}", page(hasFile), func(w http.ResponseWriter, _ *http.Request, i int) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(bytes.Repeat([]byte{0xA5}, fileSize(i)))
	})
	numbered("/fail/{i}", broken(failing), func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "this page always fails", http.StatusInternalServerError)
	})
	numbered("/moved/{i}", broken(moved), func(w http.ResponseWriter, r *http.Request, i int) {
		http.Redirect(w, r, gonePath(i), http.StatusMovedPermanently)
	})
	numbered("/loop/{i}", broken(looping), func(w http.ResponseWriter, r *http.Request, i int) {
		http.Redirect(w, r, brokenPath(i)+"/back", http.StatusFound)
	})
	numbered("/loop/{i}/back", broken(looping), func(w http.ResponseWriter, r *http.Request, i int) {
		http.Redirect(w, r, brokenPath(i), http.StatusFound)
	})

	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, robotsTxt) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	truth := sync.OnceValue(p.Truth)
	mux.HandleFunc("GET /truth.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(truth())
	})
	return mux
}

// gonePath is the missing page that a moved one leads to.
func gonePath(j int) string { return "/gone/" + strconv.Itoa(j) }

func (p Plan) servePage(w http.ResponseWriter, i int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(p.render(i))
}

// filler makes a page about as large as a short article.
var filler = strings.Repeat("<p>It was a bright cold day in April, and the crawlers were counting thirteen.</p>\n", 12)

// render writes a page from its number alone.
func (p Plan) render(i int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<title>Page %d</title>\n<h1 id=top>Page %d</h1>\n", i, i)
	say := func(href, text string) { fmt.Fprintf(&b, "<a href=\"%s\">%s</a>\n", href, text) }

	say("/", "Start")
	say("#top", "Top")
	say(p.spelled(p.after(i), i), "Next")
	for child, end := p.childrenOf(i); child < end; child++ {
		say(pagePath(child), "Below")
	}
	for _, j := range p.brokenOn(i) {
		say(brokenPath(j), "Broken")
	}
	if _, ok := p.detour(i); ok {
		say(detourPath(i), "Detour")
	}
	if hasPrivate(i) {
		say(privatePath(i), "Private")
	}
	if hasWayOut(i) {
		say(wayOutPath(i), "Way out")
	}
	if hasFile(i) {
		say(filePath(i), "File")
	}
	if hasExternal(i) {
		say(externalURL(i), "Another site")
		say("mailto:nobody@external.invalid", "Mail")
	}
	b.WriteString(filler)
	return b.Bytes()
}

// spelled writes the path of a page in one of several ways that all mean the same URL.
func (p Plan) spelled(page, way int) string {
	path := pagePath(page)
	switch way % 4 {
	case 1:
		return path + "#top"
	case 2:
		return "/here/.." + path
	case 3:
		return strings.Replace(path, "p", "%70", 1)
	default:
		return path
	}
}
