package urlnorm

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestResolveGivesOneSpelling(t *testing.T) {
	base, err := url.Parse("http://example.com/a/b?q=1")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"":                                "http://example.com/a/b?q=1",
		"#top":                            "http://example.com/a/b?q=1",
		"c":                               "http://example.com/a/c",
		"../c#x":                          "http://example.com/c",
		"./././c":                         "http://example.com/a/c",
		"/x/%2e%2E/y":                     "http://example.com/y",
		"../../../../c":                   "http://example.com/c",
		"?r=2":                            "http://example.com/a/b?r=2",
		"//EXAMPLE.com:80":                "http://example.com/",
		"HTTP://Example.COM:80/":          "http://example.com/",
		"https://example.com:443/":        "https://example.com/",
		"http://example.com:8080/":        "http://example.com:8080/",
		"http://example.com/a/./b/../c":   "http://example.com/a/c",
		"http://user:secret@example.com/": "http://example.com/",
		"http://bücher.example/":          "http://xn--bcher-kva.example/",
		"http://[2001:DB8::1]:80/":        "http://[2001:db8::1]/",
		"/%7euser/%c3%a9":                 "http://example.com/~user/%C3%A9",
		"/é b?q=ü|":                       "http://example.com/%C3%A9%20b?q=%C3%BC%7C",
		"/a%2fb|":                         "http://example.com/a%2Fb%7C",
		"/100%":                           "http://example.com/100%25",
		" \n/pa\nth\t ":                   "http://example.com/path",
	} {
		u, err := Resolve(base, ref)
		if err != nil {
			t.Errorf("Resolve(%q): %v", ref, err)
			continue
		}
		if u.String() != want {
			t.Errorf("Resolve(%q) = %s, want %s", ref, u, want)
		}
		again, err := Resolve(base, u.String())
		if err != nil || again.String() != want {
			t.Errorf("Resolve(%q) a second time = %v, %v: not stable", ref, again, err)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	base := &url.URL{Scheme: "http", Host: "example.com", Path: "/"}
	for _, ref := range []string{"mailto:a@example.com", "javascript:void(0)", "data:text/html,x", "tel:+1"} {
		if _, err := Resolve(base, ref); !errors.Is(err, ErrNotWeb) {
			t.Errorf("Resolve(%q) = %v, want ErrNotWeb", ref, err)
		}
	}
	for _, ref := range []string{"http://", "http://a b/", "http://x:port/", "/" + strings.Repeat("a", MaxLength)} {
		if u, err := Resolve(base, ref); err == nil || errors.Is(err, ErrNotWeb) {
			t.Errorf("Resolve(%.20q) = %v, %v, want an error", ref, u, err)
		}
	}
}

func TestParseStart(t *testing.T) {
	if u, err := ParseStart("HTTP://Example.com"); err != nil || u.String() != "http://example.com/" {
		t.Errorf("got %v, %v", u, err)
	}
	for _, raw := range []string{"", "example.com", "/path", "ftp://example.com/", "http://", "http://u:p@example.com/", "http://%zz/"} {
		_, err := ParseStart(raw)
		if err == nil {
			t.Errorf("ParseStart(%q) was accepted", raw)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}
