#!/usr/bin/env python3
"""The page of --html with the engine and the panel; {{data}} is to be drawn at first, {{study}} to be begun with.
Usage: join.py SOURCE FOLDER_OF_THE_ENGINE"""
import base64
import gzip
import pathlib
import re
import sys

source, engine = map(pathlib.Path, sys.argv[1:])
report = source / 'src/report'
page = re.sub(r'{{(page/\w+\.js)}}\n', lambda mark: (report / mark[1]).read_text(), (report / 'page.html').read_text())


def packed(name):
    return base64.b64encode(gzip.compress((engine / name).read_bytes(), 9, mtime=0)).decode()


parts = '\n'.join(f'<script type="application/octet-stream" id="{name.replace(".", "-")}">{packed(name)}</script>'
                  for name in ('orrery.js', 'orrery.wasm'))
panel = (source / 'tools/page/panel.html').read_text()
script = "'use strict';\n" + ''.join((source / f'tools/page/{name}.js').read_text() for name in ('engine', 'panel', 'edit'))
for mark, text in (('<div id="figures"', panel + '<div id="figures"'),
                   ("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:"),
                   ('</body>', parts + '\n<script type="application/json" id="study">{{study}}</script>\n<script>\n' + script + '</script>\n</body>')):
    assert page.count(mark) == 1, mark
    page = page.replace(mark, text)
print(page, end='')
