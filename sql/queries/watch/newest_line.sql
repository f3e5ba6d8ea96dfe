-- How old is the newest live line?
SELECT *
FROM newest_line;
