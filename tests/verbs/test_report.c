/* report: tables, curves, SVG and HTML from records, and what is no record. */
#include "cli/program.h"

#include <ctype.h>

static void write_runs(void)
{
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --record one.json --workers 1");
    expect_ok();
    run("train c.yaml --quiet --record two.json --workers 2");
    expect_ok();
    run("train c.yaml --quiet --record 'low <&> rate.json' --lr 0.001 --epochs 3");
    expect_ok();
    setenv("LANG", "C", 1);
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
}

static void tables_and_differences(void **state)
{
    (void)state;
    char hash[32], line[200];
    write_runs();
    run("train c.yaml");
    last_hash(hash);
    run("report one.json two.json 'low <&> rate.json'");
    expect(0, "");
    assert_string_equal(last.err, "");
    snprintf(line, sizeof line, "%s\n", hash);
    expect_out(line);
    expect_out("\na one ");
    expect_out("\nc low <&> rate ");
    expect_out("  digits (500)  mlp ");
    expect_out("\nThe same bits: one, two\n");
    expect_out("\noptimizer.lr   0.1    0.1    0.001\n");
    expect_out("\ntrain.workers  1      2      -\n");
    assert_null(strstr(last.out, "log.record"));
    assert_null(strstr(last.out, "optimizer.momentum"));
    static const char *const titles[] = {"\nTraining loss", "\nTest loss", "\nTest accuracy, %"};
    for (size_t i = 0; i < 3; i++) expect_out(titles[i]);

    run("report one.json");
    expect_ok();
    assert_null(strstr(last.out, "Differences"));
    shell("mkdir x && cp one.json x/ && cp one.json same.json");
    run("report one.json same.json");
    expect_out("\nAll runs have the same configuration.\n");
    run("train c.yaml --quiet --record other.json --lr 0.2 --workers 1");
    run("report one.json same.json x/one.json other.json"); /* more runs than differences */
    expect_out("\n  run         optimizer.lr\n");
    expect_out("\nd other       0.2\n");
    run("report one.json x/one.json x/one.json");
    expect_out("\na one.json ");
    expect_out("\nb x/one.json ");
    expect_out("\nc x/one.json (3) ");
}

/* Validation has curves and columns, where there is any; the optimizer is told with what is not as
 * usual; samples are those trained on. */
static void validation_and_optimizer_are_shown(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --record one.json");
    run("report one.json --svg a.svg");
    expect_out("digits (500)");
    expect_out("sgd, momentum 0.9  ");
    assert_null(strstr(last.out, "valid"));
    assert_null(strstr(last.out, "Valid"));
    run("train c.yaml --quiet --record two.json --set validation.fraction=0.2 --set "
        "optimizer.name=adamw --set 'optimizer.betas=[0.8, 0.999]' --set optimizer.clip_norm=2");
    expect_ok();
    run("report one.json two.json --svg b.svg --html b.html");
    expect_ok();
    expect_out("digits (400)");
    expect_out("adamw, weight_decay 0.01, clip_norm 2.0, betas [0.8, 0.999]");
    expect_out("best valid %  valid loss");
    expect_out("\nValidation loss\n");
    expect_out("\nValidation accuracy, %\n");
    assert_int_equal(
        shell("test $(grep -c '>epoch<' a.svg) = 3 && test $(grep -c '>epoch<' b.svg) = 5"), 0);
    assert_int_equal(shell("grep -q 'Validation loss' b.html && grep -q 'valid loss' b.html"), 0);
    /* the second row of panels begins at the left again */
    assert_int_equal(shell("grep -c 'translate(54 ' b.svg | grep -qx 3"), 0);
    run("train c.yaml --quiet --out o --set validation.fraction=0.2");
    run("info o");
    expect_ok();
    expect_out("\nepoch  train loss  valid loss  valid %   test loss  test %        lr  seconds\n");
    double loss, valid, share;
    const char *line = strstr(last.out, "seconds\n    1 ");
    assert_non_null(line);
    assert_int_equal(sscanf(strchr(line, '\n'), " 1 %lf %lf %lf", &loss, &valid, &share), 3);
    assert_true(share > 0 && share <= 100 && valid != loss);
    /* An epoch that was not evaluated has a dash, also where it is the last. */
    run("train c.yaml --quiet --out p --epochs 4 --set validation.fraction=0.2 --set "
        "validation.every_epochs=2 --set checkpoint.keep=9");
    run("info p/step-00000024.json"); /* of 4 epochs of 8 steps */
    expect_ok();
    expect_out("  valid loss  valid %   test loss  test %        lr  seconds\n");
    line = strstr(last.out, "\n    3 ");
    assert_non_null(line);
    char dashes[2][8];
    assert_int_equal(sscanf(line, " 3 %lf %7s %7s", &loss, dashes[0], dashes[1]), 3);
    assert_string_equal(dashes[0], "-");
    assert_string_equal(dashes[1], "-");
}

/* The best accuracy is the largest, wherever it stands, and the last one has a column of its own. */
static void the_best_is_not_the_last(void **state)
{
    (void)state;
    static const char record[] =
        "{\"hash\": \"0123456789abcdef\", \"steps\": 3, \"config\": {\"loss\": {\"name\": null}},\n"
        " \"epochs\": [{\"epoch\": 1, \"test_loss\": 0.5, \"test_correct\": 71, \"test_samples\": "
        "100},\n"
        "  {\"epoch\": 2, \"test_loss\": 0.25, \"test_correct\": 93, \"test_samples\": 100},\n"
        "  {\"epoch\": 3, \"test_loss\": 0.75, \"test_correct\": 82, \"test_samples\": 100}]}\n";
    write_text("a.json", record);
    run("report a.json");
    expect_ok();
    const char *line = strstr(last.out, "\na  ");
    assert_non_null(line);
    const char *best = strstr(line, " 93.00 ");
    assert_non_null(best);
    const char *end = strstr(best, " 82.00 ");
    assert_non_null(end);
    assert_true(end < strchr(line + 1, '\n'));
}

/* Seconds change to minutes where a tenth would be 60.0; and only runs of the same steps are the same. */
static void records_at_their_edges(void **state)
{
    (void)state;
    static const char *const seconds[][2] = {
        {"0.994", " 0.99 s "},       {"59.94", " 59.9 s "},      {"59.96", " 1 min 00 s "},
        {"3599.4", " 59 min 59 s "}, {"3599.6", " 1 h 00 min "}, {"86399.6", " 24 h 00 min "}};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        char record[200];
        snprintf(record, sizeof record,
                 "{\"hash\": \"0123456789abcdef\", \"steps\": 3, \"config\": {}, \"epochs\": [],\n"
                 " \"seconds\": %s}\n",
                 seconds[i][0]);
        write_text("a.json", record);
        run("report a.json");
        expect_ok();
        expect_out(seconds[i][1]);
    }
    shell("sed 's/: 3,/: 4,/' a.json >b.json && cp a.json c.json");
    run("report a.json b.json c.json");
    expect_ok();
    expect_out("\nThe same bits: a, c\n");
    /* Only ".json" is cut from a name; an epoch that was begun says nothing of how many samples. */
    write_text("run.v2", "{\"hash\": \"0123456789abcdef\", \"steps\": 3,\n"
                         " \"config\": {\"data\": {\"name\": \"digits\"}},\n"
                         " \"epochs\": [{\"epoch\": 1, \"train_samples\": 400},\n"
                         "  {\"epoch\": 2, \"train_samples\": 150}]}\n");
    run("report run.v2");
    expect_ok();
    expect_out("\nrun.v2  digits (400)  ");
}

static void letters_or_braille(void **state)
{
    (void)state;
    write_runs();
    run("report one.json two.json 'low <&> rate.json'");
    for (const char *c = last.out; *c != '\0'; c++)
        if (!isprint((unsigned char)*c) && *c != '\n') fail_msg("byte %d", *c);
    expect_out("aaaa");
    expect_out(" ab\n"); /* equal curves end in one place */
    expect_out("  epoch\n");
    setenv("LANG", "de_DE.UTF-8", 1);
    run("report one.json two.json 'low <&> rate.json'");
    expect_ok();
    expect_out("\xe2\xa0");
    expect_out("\u2524");
    assert_null(strchr(last.out, '\033')); /* no colours but on a terminal */
    setenv("LC_ALL", "C", 1);
    run("report one.json");
    assert_null(strstr(last.out, "\xe2"));
    unsetenv("LC_ALL");
}

/* What a reader of the files relies on, by Python's parsers. */
static const char check_files[] =
    "import html.parser, json, re, sys\n"
    "import xml.etree.ElementTree as xml\n"
    "names = ['one', 'two', 'low <&> rate']\n"
    "records = [json.load(open(n + '.json')) for n in names]\n"
    "svg, page = open('r.svg').read(), open('r.html').read()\n"
    "root = xml.fromstring(svg)\n"
    "space = '{http://www.w3.org/2000/svg}'\n"
    "texts = [t.text for t in root.iter(space + 'text')]\n"
    "assert all(n in texts for n in names), texts\n"
    "assert texts.count('epoch') == 3\n"
    "curves = [p for p in root.iter(space + 'path') if 'curve' in p.get('class', '')]\n"
    "assert len(curves) == 3 * 3 + 3, len(curves)\n" /* three panels, and the legend */
    "points = [len(re.findall('[ML]', c.get('d'))) for c in curves]\n"
    "assert points == [3, 2, 2] * 3 + [1] * 3, points\n"
    "x = [float(v) for c in curves for v in re.findall(r'[ML]([-\\d.]+) ', c.get('d'))]\n"
    "assert min(x) == 0 and max(x) <= 256, x\n"
    "class Page(html.parser.HTMLParser):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.open, self.seen, self.cells, self.numbers = [], set(), [], 0\n"
    "    def handle_starttag(self, tag, attributes):\n"
    "        self.seen.add(tag)\n"
    "        if tag not in ('meta', 'rect') and not (tag == 'path'): self.open.append(tag)\n"
    "        if tag == 'td': self.cells.append(''); self.numbers += 'data-n' in dict(attributes)\n"
    "        assert not any(n in ('src', 'href', 'xlink:href') for n, v in attributes)\n"
    "    def handle_endtag(self, tag):\n"
    "        if tag == 'path': return\n"
    "        assert self.open.pop() == tag, tag\n"
    "    def handle_data(self, data):\n"
    "        if self.open and self.open[-1] == 'td': self.cells[-1] += data\n"
    "parser = Page()\n"
    "parser.feed(re.sub(r'<(path|rect)([^>]*)/>', r'<\\1\\2>', page))\n"
    "parser.close()\n"
    "assert parser.open == [], parser.open\n"
    "assert {'table', 'svg', 'script', 'style'} <= parser.seen\n"
    "assert all(n in parser.cells for n in names), parser.cells\n"
    "assert all(r['hash'] in parser.cells for r in records)\n"
    "assert '0.001' in parser.cells and 'momentum' not in parser.cells\n"
    "assert parser.numbers == 3 * 12, parser.numbers\n"
    "assert 'The same bits: one, two' in page\n"
    "for text in svg.replace('http://www.w3.org/2000/svg', ''), page:\n"
    "    assert not re.search(r'https?:|//[a-z]|url\\(|@import', text), 'an external address'\n";

static void files_are_well_formed(void **state)
{
    (void)state;
    write_runs();
    write_text("check.py", check_files);
    run("report one.json two.json 'low <&> rate.json' --svg r.svg --html r.html");
    expect_ok();
    if (shell("python3 check.py 2>err.txt") != 0) {
        read_text(last.err, "err.txt");
        fail_msg("%s", last.err);
    }
    run("report one.json --svg no/where.svg");
    expect(3, "cannot write 'no/where.svg': there is no such file or folder");
    run("report one.json --html /proc/here.html");
    expect(3, "cannot write '/proc/here.html'");
    assert_int_equal(shell("ls -A | grep -q lockstep-"), 1);
}

/* Loads the page, sorts by the learning rate and gives what is then there. */
static void a_browser_shows_it(void **state)
{
    (void)state;
    if (system("command -v chromium >/dev/null 2>&1") != 0) {
        print_message("no chromium: skipped\n");
        skip();
    }
    write_runs();
    shell("mv one.json x.json");
    run("train c.yaml --quiet --record one.json --set validation.samples=100"); /* all columns */
    run("report one.json two.json 'low <&> rate.json' --html r.html");
    expect_ok();
    assert_int_equal(shell("sed 's|</body>|<script>for (const b of document.querySelectorAll("
                           "\"#runs th button\")) if (b.textContent == \"lr\") b.click();"
                           "const t = document.querySelector(\"#runs\");"
                           "console.log(\"sorted,\", t.scrollWidth <= t.parentNode.clientWidth"
                           " ? \"whole\" : \"cut\")</script></body>|' r.html >s.html"),
                     0);
    const int code = shell(
        "timeout 200 chromium --headless --no-sandbox --disable-gpu "
        "--window-size=1280,900 --disable-dev-shm-usage --user-data-dir=\"$PWD/profile\" "
        "--enable-logging=stderr --dump-dom \"file://$PWD/s.html\" "
        ">dom.txt 2>log.txt");
    read_text(last.out, "dom.txt");
    read_text(last.err, "log.txt");
    if (code != 0 || strstr(last.out, "</html>") == NULL) {
        print_message("chromium does not run here (%d): skipped\n", code);
        skip();
    }
    /* Its own line is the only one in the console. */
    const char *line = strstr(last.err, "CONSOLE");
    if (line == NULL || strstr(line, "sorted, whole") == NULL) fail_msg("no console: %s", last.err);
    if (strstr(line + 1, "CONSOLE") != NULL) fail_msg("messages: %s", last.err);
    const char *body = strstr(last.out, "<tbody>");
    assert_non_null(body);
    assert_int_equal(strncmp(body, "<tbody>", 7), 0);
    const char *low = strstr(body, "low &lt;&amp;&gt; rate"), *one = strstr(body, ">one<");
    assert_non_null(low);
    assert_non_null(one);
    assert_true(low < one);
    assert_non_null(strstr(last.out, "aria-sort=\"ascending\""));
}

/* Not from us: fields are missing, of other types, or out of reason. */
static void foreign_records(void **state)
{
    (void)state;
    run("report none.json");
    expect(3, "none.json cannot be opened: No such file");
    run("report .");
    expect(3, ". cannot be read: Is a directory");
    run("report");
    expect(2, "report takes RUN..., found 0 operands");
    static const char *const broken[] = {"",    "{",           "\177ELF", "{\"hash\": \"1\"",
                                         "nul", "{\"a\": 1} x"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        write_text("b.json", broken[i]);
        run("report b.json");
        expect(4, "b.json:1: not JSON: ");
    }
    static const char *const others[] = {
        "{}",
        "[]",
        "[{}]",
        "{\"hash\": 1, \"epochs\": [], \"config\": {}}",
        "{\"hash\": \"1\", \"epochs\": {}, \"config\": {}}",
        "{\"hash\": \"1\", \"epochs\": [3], \"config\": {}}",
        "{\"hash\": \"1\", \"epochs\": [], \"config\": {\"data\": 3}}"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_text("b.json", others[i]);
        run("report b.json --svg b.svg --html b.html");
        expect(4, "b.json is no record of a training");
        assert_false(there("b.svg") || there("b.html"));
    }
    write_text("b.json", "{\"hash\": \"1\", \"epochs\": [], \"config\": {}}");
    run("report b.json");
    expect_ok();
    run("report b.json --svg b.svg");
    expect(2, "there is no epoch in these records");
    write_text("b.json",
               "{\"hash\": \"\\u001b[31m<b>\\u202e\", \"steps\": \"x\", \"workers\": [], "
               "\"replicas\": 1e300, \"seconds\": -5, \"finished\": false, "
               "\"config\": {\"data\": {\"name\": 5, \"samples\": 1}, \"loss\": {\"name\": null}, "
               "\"<x>\": {\"&\": [\"<i>\", {}]}}, \"epochs\": ["
               "{\"epoch\": \"1\", \"train_loss\": 1e300, \"test_loss\": -1e29}, {}, "
               "{\"epoch\": -1e300, \"train_loss\": null, \"test_loss\": 1e29, "
               "\"test_correct\": 7, \"test_samples\": 0, \"seconds\": 0}, "
               "{\"epoch\": 4, \"train_loss\": 1e-300, \"test_correct\": 9, \"test_samples\": 3}, "
               "{\"epoch\": 5, \"train_loss\": 5e-324, \"test_correct\": 1, "
               "\"test_samples\": 3}]}");
    run("report b.json --svg b.svg --html b.html");
    expect(0, "");
    expect_out("  5, stopped  ");
    expect_out("  33.33  ");
    expect_out("?[31m<b>???\n");
    assert_int_equal(shell("python3 -c \"import xml.dom.minidom as m; m.parse('b.svg')\""), 0);
    assert_int_equal(shell("grep -q '<b>' b.html"), 1);
    assert_int_equal(shell("grep -q '&lt;b&gt;' b.html"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tables_and_differences),   TEST(validation_and_optimizer_are_shown),
        TEST(the_best_is_not_the_last), TEST(records_at_their_edges),
        TEST(letters_or_braille),       TEST(files_are_well_formed),
        TEST(a_browser_shows_it),       TEST(foreign_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
