"""hardmax studio: pages in the browser that show estimators, runs and models. Started by `hardmax studio`.

`registry` lists the pages, `server` serves them, `access` decides who may ask, `folders` what may be read.
"""
